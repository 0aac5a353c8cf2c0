package shoalhttp

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// functions are those of the template.
var functions = template.FuncMap{
	"duration": duration,
	"count":    count,
	"rate":     rate,
	"capacity": capacity,
	"flow":     flow,
	"indent":   func(r PoolRow) int { return min(r.Depth, maxIndent) },
}

// shown is the name of a pool as the page writes it.
func shown(name string) string {
	if name == "" {
		return "(no name)"
	}
	return visible(name)
}

// visible is s, in which what cannot be seen, such as a line break or a mark that changes the
// direction of writing, is escaped as in Go.
func visible(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i]) // it is not UTF-8
		case unicode.IsGraphic(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// clip is s, or its beginning if it has more than n bytes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// unix is a time in seconds since 1970.
func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// maxIndent is how far the table of pools is indented at most.
const maxIndent = 4

// duration writes seconds with three digits and a unit: 1.23ms.
func duration(s float64) string {
	switch {
	case s <= 0:
		return "0s"
	case s < 999.5e-9:
		return digits(s*1e9) + "ns"
	case s < 999.5e-6:
		return digits(s*1e6) + "µs"
	case s < 0.9995:
		return digits(s*1e3) + "ms"
	case s < 60:
		return digits(s) + "s"
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", int(s)/60, int(s)%60)
	case s < 1e9:
		return fmt.Sprintf("%dh%02dm", int(s)/3600, int(s)/60%60)
	}
	return "> 30 years"
}

// digits writes a number with about three digits.
func digits(f float64) string {
	switch {
	case f < 9.995:
		return strconv.FormatFloat(math.Round(f*100)/100, 'f', -1, 64)
	case f < 99.95:
		return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', 0, 64)
}

// count writes an integer with commas.
func count(v any) string {
	s := fmt.Sprint(v)
	if f, ok := v.(float64); ok {
		s = strconv.FormatFloat(f, 'f', 0, 64)
	}
	first := 0
	if s[0] == '-' {
		first = 1
	}
	for i := len(s) - 3; i > first; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// rate writes a number of something per second.
func rate(f float64) string {
	if f > 0 && f < 9.995 {
		return digits(f) + "/s"
	}
	return count(f) + "/s"
}

// capacity writes a bound.
func capacity(n int) string {
	if n < 0 {
		return "unbounded"
	}
	return count(n)
}

// flow writes a number of tasks per second: of a pool, or with those of its sub-pools.
func flow(own, below float64) string {
	if below > 0 {
		return "Σ " + rate(own+below)
	}
	return rate(own)
}
