module github.com/shoal-go/shoal/contrib/sql

go 1.26.0

require github.com/shoal-go/shoal v0.1.0
