package hostfallback

import "brig/hostfallback/confine"

// What a program needs of the system is part of every profile: see
// confine/seatbelt/base.sbpl. This is what is not the system's.
func systemGrants() confine.Grants {
	return confine.Grants{Read: []string{"/private/etc/matplotlibrc"}}
}

func networkGrants() []string { return nil }
