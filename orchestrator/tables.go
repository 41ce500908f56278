package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"brig/orchestrator/sandbox"
	"brig/orchestrator/wire"
)

// tables are the datasets of a session, and which instance knows of them.
type tables struct {
	list    []wire.Table
	version uint64 // grows with each SetTables; 0: nobody has said anything
	told    sandbox.Instance
	toldOf  uint64 // the version that told knows
}

// ErrTables is about a list of datasets that no interpreter takes.
var ErrTables = errors.New("not a usable list of datasets")

// SetTables says which datasets the session has. The interpreter finds them from
// the next run on, and so does each that comes in its place: they are told to every
// instance anew. Runs that are under way are left alone. ErrTables.
func (s *Session) SetTables(list []wire.Table) error {
	if len(list) > wire.MaxTables {
		return fmt.Errorf("set the session's datasets: %d of them, at most %d: %w", len(list), wire.MaxTables, ErrTables)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("set the session's datasets: %w", err)
	}
	if len(text) > wire.MaxTablesBytes {
		return fmt.Errorf("set the session's datasets: their list has %d bytes, at most %d: %w", len(text), wire.MaxTablesBytes, ErrTables)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tables.list = slices.Clone(list)
	s.tables.version++
	return nil
}

// tellTables makes sure that the instance knows the datasets; the caller has the
// interpreter. Where the instance was lost over it, the error says so.
func (s *Session) tellTables(ctx context.Context) error {
	s.mu.Lock()
	t, instance := s.tables, s.bound.instance
	s.mu.Unlock()
	if t.version == 0 || t.told == instance && t.toldOf == t.version {
		return nil
	}
	list := t.list
	if list == nil {
		list = []wire.Table{}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("tell the interpreter of the datasets: %w", err)
	}
	if _, err := instance.Call(ctx, wire.Control{Op: wire.OpTables}, bytes.NewReader(text), nil); err != nil {
		return fmt.Errorf("tell the interpreter of the datasets: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tables.told, s.tables.toldOf = instance, t.version
	return nil
}
