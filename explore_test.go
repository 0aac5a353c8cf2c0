//go:build poolsim

package shoal

import (
	"log/slog"
	"os"
	"testing"

	"github.com/shoal-go/shoal/internal/explore"
	"github.com/shoal-go/shoal/internal/explore/suite"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // reports of panics
	os.Exit(m.Run())
}

func TestExplore(t *testing.T) {
	var all []suite.Model
	for _, m := range models {
		all = append(all, suite.Model{Name: m.name, Bound: m.bound, Reach: m.reach, Run: func(em *explore.M) {
			reset()
			m.run(&sim{M: em})
		}})
	}
	suite.Test(t, all)
}
