package storetest

import "testing"

func TestModel(t *testing.T) { Run(t, NewModel()) }
