package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A page is a Markdown file of the repository.
type page struct {
	file   string // relative to the root of the repository
	text   string
	blocks []block
	prose  []line // what is not in a block
}

// A block is a fenced or an indented block of code.
type block struct {
	lang    string // of a fence; "" if the block is indented
	line    int    // of its first line of code
	lines   []string
	prelude string // of Go: declarations that the fragment needs, from a comment before it
}

func (b block) text() string { return strings.Join(b.lines, "\n") + "\n" }

type line struct {
	n    int
	text string
}

func readPage(root, file string) (*page, error) {
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	return parsePage(file, string(data)), nil
}

// A comment of this form before a block of Go has declarations for it:
//
//	<!-- go
//	var page func(shoal.Alarm)
//	-->
const preludeMark = "<!-- go"

func parsePage(file, text string) *page {
	p := &page{file: file, text: text}
	lines := strings.Split(text, "\n")
	prelude, blank := "", true
	for i := 0; i < len(lines); i++ {
		l := lines[i]
		switch {
		case l == preludeMark:
			for i++; i < len(lines) && lines[i] != "-->"; i++ {
				prelude += lines[i] + "\n"
			}
		case strings.HasPrefix(l, "```"):
			b := block{lang: strings.TrimPrefix(l, "```"), line: i + 2, prelude: prelude}
			for i++; i < len(lines) && !strings.HasPrefix(lines[i], "```"); i++ {
				b.lines = append(b.lines, lines[i])
			}
			p.blocks, prelude = append(p.blocks, b), ""
		case blank && strings.HasPrefix(l, "    "):
			b := block{line: i + 1}
			for ; i < len(lines) && strings.HasPrefix(lines[i], "    "); i++ {
				b.lines = append(b.lines, strings.TrimPrefix(lines[i], "    "))
			}
			i--
			p.blocks = append(p.blocks, b)
		default:
			p.prose = append(p.prose, line{i + 1, l})
		}
		blank = strings.TrimSpace(l) == ""
	}
	return p
}

var (
	heading   = regexp.MustCompile(`^#{1,6} +(.*)`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors are the anchors of the page's headings, as GitHub makes them.
func (p *page) anchors() map[string]bool {
	names := map[string]bool{}
	for _, l := range p.prose {
		if m := heading.FindStringSubmatch(l.text); m != nil {
			slug := strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
			names[slug] = true
		}
	}
	return names
}

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpan = regexp.MustCompile("`[^`]*`")
)

// links calls f for every link of the page's prose.
func (p *page) links(f func(line int, target string)) {
	for _, l := range p.prose {
		for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(l.text, "``"), -1) {
			f(l.n, m[1])
		}
	}
}
