//go:build !unix

package sandboxtest

import (
	"errors"
	"fmt"
	"os"
)

func makeFIFO(*os.Root, string) error {
	return fmt.Errorf("make a named pipe: %w", errors.ErrUnsupported)
}

// plantable says whether every kind of special file can be made here.
const plantable = false
