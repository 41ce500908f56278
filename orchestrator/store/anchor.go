package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// AuditHead is what was last kept of the audit log's head, empty where nothing
// was. It anchors the log outside of its own files.
func (s *Store) AuditHead(ctx context.Context) (head string, err error) {
	const doing = "read the audit log's head"
	leave, err := s.enter(doing)
	if err != nil {
		return "", err
	}
	defer leave()
	head, err = auditHead(ctx, s.read)
	return head, s.explain(doing, err)
}

// SetAuditHead is on the disk when it returns.
func (s *Store) SetAuditHead(ctx context.Context, head string) error {
	return s.commit(ctx, "keep the audit log's head", onDisk, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO meta (key, value) VALUES ('audit', ?)", head)
		return err
	})
}

// LookAuditHead is AuditHead for whoever only looks into a state directory: it
// opens nothing for writing and asks for no owner. Empty where there is no store.
func LookAuditHead(ctx context.Context, dir string) (head string, err error) {
	path := filepath.Join(dir, File)
	if info, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() == 0) {
		return "", nil
	}
	db, err := connect(path, "NORMAL")
	if err != nil {
		return "", fmt.Errorf("look into %s: %w", path, err)
	}
	h, err := readHeader(ctx, db)
	if err == nil && h.application == applicationID && h.version > 0 {
		head, err = auditHead(ctx, db)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return "", fmt.Errorf("look into %s: %w", path, err)
	}
	return head, nil
}

func auditHead(ctx context.Context, db *sql.DB) (head string, err error) {
	err = db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'audit'").Scan(&head)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return head, err
}
