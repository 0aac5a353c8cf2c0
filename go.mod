module github.com/shoal-go/shoal

go 1.26
