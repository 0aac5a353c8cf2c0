package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// checkLinks finds links to files and headings that do not exist.
func checkLinks(root string, pages []*page) (problems []string) {
	byFile := map[string]*page{}
	for _, p := range pages {
		byFile[p.file] = p
	}
	for _, p := range pages {
		p.links(func(n int, target string) {
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				return
			}
			path, anchor, _ := strings.Cut(target, "#")
			file := p.file
			if path != "" {
				file = filepath.Join(filepath.Dir(p.file), path)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				problems = append(problems, fmt.Sprintf("%s:%d: there is no file %s", p.file, n, file))
				return
			}
			if to := byFile[file]; anchor != "" && to != nil && !to.anchors()[anchor] {
				problems = append(problems, fmt.Sprintf("%s:%d: %s has no heading #%s", p.file, n, file, anchor))
			}
		})
	}
	return problems
}

var mention = regexp.MustCompile(`\bdocs/[a-z-]+\.md\b`)

// checkMentions finds pages that source files name and that do not exist.
func checkMentions(root string, files []string) (problems []string, err error) {
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			return nil, err
		}
		for n, l := range strings.Split(string(data), "\n") {
			for _, page := range mention.FindAllString(l, -1) {
				if _, err := os.Stat(filepath.Join(root, page)); err != nil {
					problems = append(problems, fmt.Sprintf("%s:%d: there is no page %s", f, n+1, page))
				}
			}
		}
	}
	return problems, nil
}
