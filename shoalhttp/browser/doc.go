// Package browser tests the page of package shoalhttp in a real browser. It has
// a module of its own so that its dependencies stay out of shoal's.
//
//	go test ./...
//	SHOAL_BROWSER=required go test ./...   # fail, not skip, without a browser
//	go test -run Screenshots -screenshots DIR ./...
//
// It drives the Chromium that $CHROMIUM names, or the first of chromium,
// chromium-browser and google-chrome on PATH; it downloads none.
package browser
