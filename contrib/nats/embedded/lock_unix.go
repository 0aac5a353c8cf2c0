//go:build unix

package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// lock takes the folder for this server. The lock ends with the process, however that
// ends.
func lock(dir string) (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
			if b, e := io.ReadAll(io.LimitReader(f, 20)); e == nil && len(b) > 0 {
				err = fmt.Errorf("%w: process %s", err, bytes.TrimSpace(b))
			}
		}
		return nil, errors.Join(fmt.Errorf("%w", err), f.Close())
	}
	// For people, and the error above. On a full disk it does without.
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return sync.OnceValue(f.Close), nil
}
