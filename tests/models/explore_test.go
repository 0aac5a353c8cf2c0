//go:build poolsim

package models

import (
	"log/slog"
	"os"
	"slices"
	"testing"

	"github.com/shoal-go/shoal/internal/explore/suite"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // reports of panics
	os.Exit(m.Run())
}

func TestExplore(t *testing.T) {
	suite.Test(t, slices.Concat(models, resultModels, loopModels, reviewModels,
		crossGroups, crossLoops, crossLife, crossPlaces, crossDeep, crossEnds, crossPools))
}
