package workspace

import (
	"fmt"
	"io/fs"
	"os"
)

// Give changes the owner of a directory and of what lies in it, which only root can.
// It goes through os.Root and never follows a link, so an earlier session of the same
// directory cannot have planted a way out.
func Give(dir string, uid, gid int) error {
	root, err := openDir(dir)
	if err != nil {
		return fmt.Errorf("open the workspace: %w", err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(name, uid, gid)
	})
	if err != nil {
		return fmt.Errorf("give the workspace to user %d:%d: %w", uid, gid, err)
	}
	return nil
}

// Take makes a directory with what lies in it ours where brig is root and it is
// somebody else's. It was given away for a sandbox whose code runs as another user;
// code that runs as our own has no power over what belongs to others.
func Take(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the workspace: %w", err)
	}
	if _, _, elsewhere := giveAway(info); !elsewhere {
		return nil
	}
	return Give(dir, os.Geteuid(), os.Getegid())
}
