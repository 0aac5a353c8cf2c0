// Package marks puts what was measured into documents.
package marks

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
)

// Fill replaces what stands in a file between the lines
//
//	<!-- kind: name -->
//	<!-- end -->
//
// by the part of that name. A name that has no part is an error.
func Fill(file, kind string, parts map[string]func(io.Writer) error) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	mark := regexp.MustCompile(`(?s)(<!-- ` + regexp.QuoteMeta(kind) + `: (\w+) -->\n).*?(<!-- end -->)`)
	var failed error
	done := mark.ReplaceAllFunc(data, func(old []byte) []byte {
		m := mark.FindSubmatch(old)
		part := parts[string(m[2])]
		if part == nil {
			failed = fmt.Errorf("%s: there are no %s called %q", file, kind, m[2])
			return old
		}
		var b bytes.Buffer
		if err := part(&b); err != nil {
			failed = err
		}
		return slices.Concat(m[1], b.Bytes(), m[3])
	})
	if failed != nil {
		return failed
	}
	return os.WriteFile(file, done, 0o666)
}
