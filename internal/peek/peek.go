// Package peek shows the facades below compat what package shoal does not export.
package peek

import "github.com/shoal-go/shoal/internal/kernel"

// Snapshot is what [shoal.Pool.Stats] counts of pool, a *shoal.Pool, without what takes longer the more workers
// there are. Package shoal sets it.
var Snapshot func(pool any) kernel.Snapshot
