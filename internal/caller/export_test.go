package caller

// HasSites reports whether stacks can be read.
func HasSites() bool { return sites[0] != 0 }

// Tells reports whether return addresses would tell digits apart if that of one were that of other.
func Tells(one, other int) bool {
	t := sites
	t[one] = t[other]
	return t.tells()
}

// Sites is how many addresses there are.
const Sites = len(table{})
