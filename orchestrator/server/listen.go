package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"brig/orchestrator/api"
)

// noLoopback is the value of server.listen for sockets only.
const noLoopback = "none"

// how many connections each listener has at the same time. The operator's are its
// own: agents cannot lock a person out.
func roomOf(f from) int64 {
	if f == operatorSocket {
		return 128
	}
	return 512
}

// TakenError says that something else listens at the address that was configured.
type TakenError struct{ Address string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("another program listens at %s; choose another address with server.listen, or 127.0.0.1:0 for any free port", e.Address)
}

// Bound is where a server listens.
type Bound struct {
	Address string   // on loopback; empty: nowhere
	Sockets []string // paths
	Notes   []string // what is not as asked for, for people
}

// Listen opens the sockets and the port, writes the tokens and tells where it
// listens. The caller holds the lock of the runtime directory: what has the name of
// a socket there was left by a brig that has ended. *TakenError. Nothing is served
// before Serve; after an error nothing listens.
func (s *Server) Listen() (b Bound, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if err != nil {
			err = errors.Join(err, s.unlistenLocked())
		}
	}()
	dir := s.options.Paths.Runtime
	if err := ownPlace(dir); err != nil {
		return b, err
	}
	for f, name := range map[from]string{agentSocket: api.AgentSocket, operatorSocket: api.OperatorSocket} {
		if !sockets {
			continue
		}
		l, err := listenSocket(dir, name)
		if isTooLong(err) && s.options.Listen != noLoopback {
			b.Notes = append(b.Notes, fmt.Sprintf("no socket %s: the path of %s is too long for one; programs use loopback", name, dir))
			continue
		}
		if err != nil {
			return b, err
		}
		s.add(l, f)
		b.Sockets = append(b.Sockets, filepath.Join(dir, name))
	}
	if s.options.Listen != noLoopback {
		l, note, err := s.listenLoopback()
		if err != nil {
			return b, err
		}
		s.add(&socket{Listener: l}, loopback)
		b.Address = l.Addr().String()
		if note != "" {
			b.Notes = append(b.Notes, note)
		}
	}
	if len(s.listeners) == 0 {
		return b, errors.New("this system has no unix sockets that say who connects, and server.listen is none: nothing could reach brig; set server.listen = \"127.0.0.1:7411\"")
	}
	if err := s.tokens.write(dir); err != nil {
		return b, err
	}
	text, err := json.Marshal(api.Bound{Address: b.Address, Version: s.options.Version, PID: os.Getpid()})
	if err != nil {
		return b, fmt.Errorf("tell where brig listens: %w", err)
	}
	s.bound = b.Address
	return b, writeText(dir, api.EndpointFile, string(text))
}

// listenLoopback takes the configured address, or a free port beside it.
func (s *Server) listenLoopback() (l net.Listener, note string, err error) {
	at := s.options.Listen
	host, _, err := net.SplitHostPort(at)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return nil, "", fmt.Errorf("listen at %s: it is no address on loopback", at)
	}
	l, err = net.Listen("tcp", at)
	if err == nil {
		return l, "", nil
	}
	if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES) {
		return nil, "", fmt.Errorf("listen at %s: %w", at, err)
	}
	if !s.options.Free {
		return nil, "", &TakenError{at}
	}
	if l, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
		return nil, "", fmt.Errorf("listen at a free port of %s: %w", host, err)
	}
	return l, fmt.Sprintf("another program listens at %s, so brig listens at %s", at, l.Addr()), nil
}

// Serve answers until Shutdown; the error is of the first listener that failed.
func (s *Server) Serve() error {
	s.mu.Lock()
	listeners := s.listeners
	s.mu.Unlock()
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { failed <- s.http.Serve(l) }()
	}
	var first error
	for range listeners {
		if err := <-failed; first == nil && !errors.Is(err, errServerClosed) {
			first = fmt.Errorf("serve: %w", err)
			s.Drain()
			_ = s.http.Close() // so that the others end too
		}
	}
	return first
}

func (s *Server) add(inner *socket, f from) {
	s.listeners = append(s.listeners, &listener{socket: inner, from: f, room: s.room(f), gap: s.writeGap, refused: make(chan struct{}, refusing), count: &s.metrics.connections})
}

func (s *Server) unlisten() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unlistenLocked()
}

// unlistenLocked closes what listens and removes what told of it; the caller holds mu.
func (s *Server) unlistenLocked() error {
	var errs []error
	for _, l := range s.listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
		errs = append(errs, l.remove())
	}
	if len(s.listeners) > 0 {
		for _, name := range []string{api.EndpointFile, api.AgentToken, api.MCPToken, api.OperatorToken} {
			if err := os.Remove(filepath.Join(s.options.Paths.Runtime, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	s.listeners = nil
	return errors.Join(errs...)
}
