package server

// operations puts what a caller may ask into the mux, as huma operations.
func (s *Server) operations() error { return nil }
