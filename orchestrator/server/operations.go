package server

// operations are what a caller may ask, as huma operations on the mux.
func (s *Server) operations() {}
