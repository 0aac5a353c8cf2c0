// Package sqltest has the tests of contrib/sql, with the drivers that they need.
package sqltest
