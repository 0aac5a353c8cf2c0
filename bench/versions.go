package bench

import "runtime/debug"

// Versions reads the versions of all modules from the build info.
func Versions() map[string]string {
	v := map[string]string{}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, m := range append(info.Deps, &info.Main) {
		v[m.Path] = m.Version
		if m.Replace != nil {
			v[m.Path] = m.Replace.Version
		}
		if v[m.Path] == "" || v[m.Path] == "(devel)" {
			v[m.Path] = "this checkout"
			for _, s := range info.Settings {
				if s.Key == "vcs.revision" && len(s.Value) >= 12 {
					v[m.Path] = "commit " + s.Value[:12]
				}
			}
		}
	}
	return v
}
