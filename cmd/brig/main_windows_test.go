package main

import "testing"

// Tests on Windows run brig as the user who runs them.

func becomeOrdinary(string) {}

func copyOfTest(*testing.T) string { return "" }

func openParent(string) error { return nil }

func giveToOrdinary(string) error { return nil }
