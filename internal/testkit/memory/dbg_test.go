package memory
import ("testing";"runtime/debug";"os")
func TestDbg(t *testing.T){
 tr := &trial{w:&workloads[0], at: 13}
 dbgHook = func(){ os.Stderr.Write(debug.Stack()) }
 _, err := tr.run(657713334037)
 t.Log(err)
}
