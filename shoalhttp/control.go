package shoalhttp

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/shoal-go/shoal"
)

// What a viewer may ask for by a resize. A minimum is started at once, so it is the smaller one: a
// slip of the finger shall not cost a program its memory. Workers are goroutines of some kB. What
// the pool has already may be kept.
const (
	mostMin = 1_000
	mostMax = 100_000
)

// maxCommand is how long a command may be, in bytes.
const maxCommand = 4 << 10

// A command is the body of a request to change a pool.
type command struct {
	Pool   int    `json:"pool"`
	Action string `json:"action"`
	Min    int    `json:"min"`
	Max    int    `json:"max"`
}

func refuse(w http.ResponseWriter, status int, format string, args ...any) {
	http.Error(w, "shoalhttp: "+fmt.Sprintf(format, args...), status)
}

// commanded reads what a request asks to be done into c. If the request may not ask for anything,
// or is not understood, commanded answers it and returns false.
func (h *Page) commanded(w http.ResponseWriter, r *http.Request, c any) bool {
	if !h.controls {
		refuse(w, http.StatusForbidden, "this page has no controls; the program enables them with WithControls")
		return false
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, "want the method POST")
		return false
	}
	if err := h.cross.Check(r); err != nil {
		refuse(w, http.StatusForbidden, "refused: the request comes from another site")
		return false
	}
	given := sha256.Sum256([]byte(r.Header.Get("Shoal-Token")))
	if subtle.ConstantTimeCompare(given[:], h.token[:]) != 1 {
		refuse(w, http.StatusForbidden, "the token is wrong: want that of WithControls")
		return false
	}
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "Content-Type %q: want application/json", kind)
		return false
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCommand))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		refuse(w, http.StatusBadRequest, "the command is not understood: %v", err)
		return false
	}
	if _, err := d.Token(); err != io.EOF {
		refuse(w, http.StatusBadRequest, "the command is not understood: more follows it")
		return false
	}
	return true
}

// control serves a request to change a pool.
func (h *Page) control(w http.ResponseWriter, r *http.Request) {
	var c command
	if !h.commanded(w, r, &c) {
		return
	}
	t, p := h.find(c.Pool)
	if t == nil {
		refuse(w, http.StatusNotFound, "pool %d: there is no such pool; stats.json lists the IDs", c.Pool)
		return
	}
	if err := c.carryOut(p); err != nil {
		status := http.StatusBadRequest
		if errors.Is(err, shoal.ErrClosed) {
			status = http.StatusConflict
		}
		refuse(w, status, "%v", err)
		return
	}
	slog.Info("shoalhttp: a viewer of the page changed a pool", "pool", t.name, "action", c.Action, "min", c.Min, "max", c.Max, "by", r.RemoteAddr)
	w.WriteHeader(http.StatusNoContent)
}

func (c *command) carryOut(p *shoal.Pool) error {
	switch c.Action {
	case "resize":
		s := p.Stats()
		if most := max(mostMin, s.MinWorkers); c.Min < 0 || c.Min > most {
			return fmt.Errorf("resize: min is %d: want 0 … %d", c.Min, most)
		}
		if most := max(mostMax, s.MaxWorkers); c.Max < 1 || c.Max > most {
			return fmt.Errorf("resize: max is %d: want 1 … %d", c.Max, most)
		}
		return p.Resize(c.Min, c.Max)
	case "pause", "resume":
		if s := p.State(); s == shoal.Draining || s == shoal.Closed {
			return shoal.ErrClosed
		}
		if c.Action == "pause" {
			p.Pause()
		} else {
			p.Resume()
		}
		return nil
	}
	return fmt.Errorf("action %q: want pause, resume or resize", c.Action)
}
