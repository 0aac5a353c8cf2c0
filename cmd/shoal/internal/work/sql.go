package work

import (
	"context"
	"errors"
)

func openSQL(ctx context.Context, p Place) (*Queue, error) {
	return nil, errors.New("-sql: not yet")
}
