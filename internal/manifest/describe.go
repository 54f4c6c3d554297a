package manifest

import (
	"fmt"
	"strings"
)

// DebugString lists the tables as LevelDB's Version::DebugString does.
func (v *Version) DebugString() string {
	var b strings.Builder
	for i := range v.Levels {
		fmt.Fprintf(&b, "--- level %d ---\n", i)
		for _, m := range v.Levels[i].Files {
			fmt.Fprintf(&b, " %d:%d[%q @ %d : %d .. %q @ %d : %d]\n", m.Num, m.Size,
				m.Smallest.User, m.Smallest.Trailer.Seq(), m.Smallest.Trailer.Kind(),
				m.Largest.User, m.Largest.Trailer.Seq(), m.Largest.Trailer.Kind())
		}
	}
	return b.String()
}
