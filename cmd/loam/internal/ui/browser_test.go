//go:build linux || darwin || freebsd

package ui

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/loamdb/loam/lsm"
)

// driver is a session of WebDriver (W3C), the protocol of chromedriver.
type driver struct {
	t       *testing.T
	address string // of the session
}

// element is what WebDriver calls a reference to an element.
const element = "element-6066-11e4-a52e-4f735466cecf"

var startedOn = regexp.MustCompile(`started successfully on port (\d+)`)

// browse starts a browser without a window, or skips the test.
func browse(t *testing.T) *driver {
	t.Helper()
	path, err := exec.LookPath("chromedriver")
	if err != nil {
		t.Skip("no browser: install chromium and chromium-driver to test the page in one")
	}
	cmd := exec.Command(path, "--port=0")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	d := &driver{t: t}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := startedOn.FindStringSubmatch(lines.Text()); m != nil {
			d.address = "http://127.0.0.1:" + m[1] + "/session"
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	options := map[string]any{"args": []string{"--headless=new", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--hide-scrollbars", "--window-size=1280,1000"}}
	session := d.ask(http.MethodPost, "", map[string]any{"capabilities": map[string]any{
		"alwaysMatch": map[string]any{"browserName": "chrome", "goog:chromeOptions": options,
			"goog:loggingPrefs": map[string]string{"performance": "ALL", "browser": "ALL"}}}})
	d.address += "/" + session.(map[string]any)["sessionId"].(string)
	t.Cleanup(func() { d.ask(http.MethodDelete, "", nil) })
	d.ask(http.MethodPost, "/timeouts", map[string]int{"script": 60_000, "pageLoad": 60_000})
	return d
}

// ask sends a request and returns what it answers.
func (d *driver) ask(method, what string, body any) any {
	d.t.Helper()
	value, ok := d.try(method, what, body)
	if !ok {
		d.t.Fatalf("%s: %v", what, value)
	}
	return value
}

// try is ask, and returns why it failed.
func (d *driver) try(method, what string, body any) (value any, ok bool) {
	d.t.Helper()
	b, err := json.Marshal(body)
	must(d.t, err)
	if body == nil {
		b = nil
	}
	r, err := http.NewRequest(method, d.address+what, bytes.NewReader(b))
	must(d.t, err)
	answer, err := http.DefaultClient.Do(r)
	must(d.t, err)
	defer answer.Body.Close()
	var x struct{ Value any }
	must(d.t, json.NewDecoder(answer.Body).Decode(&x))
	return x.Value, answer.StatusCode == http.StatusOK
}

// run runs a script in the page and returns its result.
func (d *driver) run(script string, args ...any) any {
	d.t.Helper()
	if args == nil {
		args = []any{}
	}
	return d.ask(http.MethodPost, "/execute/sync", map[string]any{"script": script, "args": args})
}

// until waits until an expression is true. The page is looked at again whenever it changes.
func (d *driver) until(expression string) {
	d.t.Helper()
	d.run(`return new Promise((done) => {
		const test = () => (` + expression + `)
		if (test()) return done()
		const o = new MutationObserver(() => { if (test()) { o.disconnect(); done() } })
		o.observe(document, { subtree: true, childList: true, attributes: true,
			characterData: true })
	})`)
}

// cdp sends a command of the DevTools.
func (d *driver) cdp(command string, params any) {
	d.t.Helper()
	d.ask(http.MethodPost, "/goog/cdp/execute", map[string]any{"cmd": command, "params": params})
}

// find returns references to elements.
func (d *driver) find(selector string) (ids []string) {
	d.t.Helper()
	list := d.ask(http.MethodPost, "/elements", map[string]string{"using": "css selector",
		"value": selector})
	for _, found := range list.([]any) {
		ids = append(ids, found.(map[string]any)[element].(string))
	}
	return ids
}

// keys types into what has the focus. WebDriver has a code for each key that is no character.
func (d *driver) keys(keys ...string) {
	d.t.Helper()
	var actions []map[string]string
	for _, k := range keys {
		actions = append(actions, map[string]string{"type": "keyDown", "value": k},
			map[string]string{"type": "keyUp", "value": k})
	}
	d.ask(http.MethodPost, "/actions", map[string]any{"actions": []any{map[string]any{
		"type": "key", "id": "keyboard", "actions": actions}}})
}

const (
	keyTab   = "\ue004"
	keyEnter = "\ue007"
	keyEsc   = "\ue00c"
	keyRight = "\ue014"
)

// screenshot writes a picture, if LOAM_SCREENSHOTS names a directory for them.
func (d *driver) screenshot(name string) {
	d.t.Helper()
	dir := os.Getenv("LOAM_SCREENSHOTS")
	if dir == "" {
		return
	}
	b, err := base64.StdEncoding.DecodeString(d.ask(http.MethodGet, "/screenshot", nil).(string))
	must(d.t, err)
	must(d.t, os.WriteFile(filepath.Join(dir, name+".png"), b, 0o600))
}

// loaded is a database that works before each answer to the page, and the address of its page.
func loaded(t *testing.T) (address string) {
	t.Helper()
	t.Chdir(t.TempDir())
	const dir = "orchard" // as short as in a picture
	db, err := lsm.Open(dir, &lsm.Options{Inspect: true, WriteBufferSize: 256 << 10,
		MaxFileSize: 128 << 10})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	s := serve(t, dir, false)
	n := 0
	work := func() {
		for range 1500 {
			n++
			must(t, db.Put(fmt.Appendf(nil, "tree:%06d", n*7919%20000),
				fmt.Appendf(nil, `{"kind":"ash","n":%d,"note":"%0100d"}`, n, n), lsm.NoSync))
			if n%4 == 0 {
				if _, err := db.Get(fmt.Appendf(nil, "tree:%06d", n*31%20000), nil); err != nil &&
					!strings.Contains(err.Error(), "not found") {
					t.Error(err)
				}
			}
		}
	}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/live" {
			s.slots <- struct{}{} // one at a time
			work()
			<-s.slots
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h.URL + "/#" + secret
}

// TestBrowser opens the page in a browser over a database at work: figures move, keys reach all
// views, everything has a name for screen readers, there is no error and no request elsewhere, and
// the page fits a phone.
func TestBrowser(t *testing.T) {
	d := browse(t)
	address := loaded(t)
	d.ask(http.MethodPost, "/url", map[string]string{"url": address})
	d.until(`document.querySelectorAll('#tiles dd').length > 3`)
	for range 3 {
		before := d.run(`return document.querySelector('#tiles').textContent`).(string)
		d.run(`window.before = arguments[0]`, before)
		d.until(`document.querySelector('#tiles').textContent !== window.before`)
	}
	d.until(`document.querySelectorAll('#tree svg *').length > 10`)
	testKeyboard(d)
	testNames(d)
	d.run(`document.querySelector('#tab-live').click()`)
	for _, look := range []struct {
		name, scheme  string
		width, height int
		mobile        bool
	}{{"light", "light", 1280, 1000, false}, {"dark", "dark", 1280, 1000, false},
		{"phone", "light", 390, 844, true}, {"small", "dark", 320, 568, true}} {
		d.cdp("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{
			"name": "prefers-color-scheme", "value": look.scheme}}})
		d.cdp("Emulation.setDeviceMetricsOverride", map[string]any{"width": look.width,
			"height": look.height, "deviceScaleFactor": 1, "mobile": look.mobile})
		d.until(`true`)
		wide := d.run(`return document.documentElement.scrollWidth - window.innerWidth`).(float64)
		if wide > 0 {
			t.Errorf("%s: the page is %v pixels too wide", look.name, wide)
		}
		d.run(`for (const b of document.querySelectorAll('.tile .sub'))
			b.textContent = 'write amplification 12.3'`)
		if cut := d.run(`return [...document.querySelectorAll('.tile dt, .tile dd')].filter(
			(e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent).join()`); cut != "" {
			t.Errorf("%s: tiles cut off %v", look.name, cut)
		}
		d.screenshot(look.name)
	}
	testSilence(d, address)
}

// testKeyboard goes through the views by keys alone, and opens and closes a value.
func testKeyboard(d *driver) {
	d.run(`document.querySelector('#tab-live').focus()`)
	for _, view := range []string{"keys", "tables", "logs", "manifest"} {
		d.keys(keyRight)
		d.until(`document.querySelector('#tab-` + view + `').getAttribute('aria-selected') ===
			'true' && !document.querySelector('#` + view + `').hidden`)
	}
	d.run(`document.querySelector('#tab-keys').click()`)
	d.until(`document.querySelector('#key-list').textContent.includes('tree:')`)
	d.run(`document.querySelector('#key-form input').focus()`)
	d.keys("t", "r", "e", "e", ":", "0", "0", keyEnter)
	d.until(`document.querySelector('#key-list').textContent.includes('tree:00')`)
	for range 40 { // to the first key of the list
		d.keys(keyTab)
		if d.run(`return document.querySelector('#key-list').contains(document.activeElement) &&
			document.activeElement.matches('button')`).(bool) {
			break
		}
	}
	d.keys(keyEnter)
	d.until(`document.querySelector('#dialog').open &&
		document.querySelector('#dialog').textContent.includes('ash')`)
	d.keys(keyEsc)
	d.until(`!document.querySelector('#dialog').open`)
	if !d.run(`return document.querySelector('#key-list').contains(
		document.activeElement)`).(bool) {
		d.t.Error("the focus is lost with the dialog")
	}
}

// testNames wants a name of each control and picture of each view. An element that a view draws
// anew meanwhile is stale: the view's others are looked at then.
func testNames(d *driver) {
	named := 0
	for _, view := range []string{"live", "keys", "tables", "logs", "manifest"} {
		d.run(`document.querySelector('#tab-` + view + `').click()`)
		d.until(`!document.querySelector('#` + view + `').hidden &&
			document.querySelector('#` + view + `').textContent.length > 20`)
		for _, id := range d.find("button, input, select, textarea, a, [role=img], section") {
			shown, ok := d.try(http.MethodGet, "/element/"+id+"/displayed", nil)
			if !ok || shown != true {
				continue
			}
			label, ok := d.try(http.MethodGet, "/element/"+id+"/computedlabel", nil)
			if !ok {
				continue
			}
			if label == "" { // nameless, or no longer drawn: a stale element has no HTML
				html, ok := d.try(http.MethodGet, "/element/"+id+"/property/outerHTML", nil)
				if !ok {
					continue
				}
				d.t.Errorf("%s: no name: %.200s", view, html)
			}
			named++
		}
	}
	if named < 50 {
		d.t.Errorf("only %d names", named)
	}
}

// testSilence wants no error in the console, and requests to the page's own server alone.
func testSilence(d *driver, address string) {
	for _, line := range d.ask(http.MethodPost, "/se/log", map[string]string{
		"type": "browser"}).([]any) {
		d.t.Errorf("console: %v", line.(map[string]any)["message"])
	}
	own, _, _ := strings.Cut(address, "#")
	asked := 0
	for _, line := range d.ask(http.MethodPost, "/se/log", map[string]string{
		"type": "performance"}).([]any) {
		var x struct {
			Message struct {
				Method string
				Params struct{ Request struct{ URL string } }
			}
		}
		must(d.t, json.Unmarshal([]byte(line.(map[string]any)["message"].(string)), &x))
		if x.Message.Method != "Network.requestWillBeSent" {
			continue
		}
		asked++
		if url := x.Message.Params.Request.URL; !strings.HasPrefix(url, own) &&
			!strings.HasPrefix(url, "data:") {
			d.t.Errorf("a request elsewhere: %s", url)
		}
	}
	if asked < 5 {
		d.t.Errorf("%d requests", asked)
	}
}
