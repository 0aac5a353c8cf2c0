//go:build !linux

package shoalsql

import (
	"context"
	"errors"
)

func untilWritten(context.Context, string) (*waiter, error) { return nil, errors.ErrUnsupported }
