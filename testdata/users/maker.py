"""Makes the directories in this folder, as programs of users write them.

  indexeddb     a page's IndexedDB, in the order idb_cmp1, by Chromium
  localstorage  Local Storage of the same page, by Chromium: also Electron's
  bedrock       a world of Minecraft, by Mojang's LevelDB: deflated blocks

  pip install playwright amulet-leveldb; apt install chromium
  python maker.py DIRECTORY
"""

import http.server
import pathlib
import random
import shutil
import struct
import sys
import tempfile
import threading

import leveldb
from playwright.sync_api import sync_playwright

PAGE = """<script>
async function fill() {
  for (let i = 0; i < 200; i++) localStorage.setItem('note' + i, 'text ' + i + ' äöü '.repeat(i % 9))
  const open = indexedDB.open('trees', 3)
  open.onupgradeneeded = () => {
    const store = open.result.createObjectStore('trees', {keyPath: 'name'})
    store.createIndex('height', 'height')
    open.result.createObjectStore('log', {autoIncrement: true})
  }
  await new Promise(done => { open.onsuccess = done })
  const t = open.result.transaction(['trees', 'log'], 'readwrite', {durability: 'strict'})
  for (let i = 0; i < 300; i++) {
    t.objectStore('trees').put({name: 'tree' + i, height: i % 40 + 0.5, text: 'ash elm '.repeat(i < 75 ? 7000 : i % 9)})
    t.objectStore('log').add({at: i, key: [i, 'a', new Date(i)]})
  }
  await new Promise(done => { t.oncomplete = done })
  const u = open.result.transaction(['trees'], 'readwrite', {durability: 'strict'})
  for (let i = 0; i < 300; i += 7) u.objectStore('trees').delete('tree' + i)
  await new Promise(done => { u.oncomplete = done })
  return true
}
</script>"""


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *args):
        pass


def chromium(to):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 8437), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as profile, sync_playwright() as p:
        for _ in range(1):
            browser = p.chromium.launch_persistent_context(
                profile, executable_path="/usr/bin/chromium", args=["--no-sandbox"]
            )
            page = browser.new_page()
            page.goto("http://127.0.0.1:8437/")
            assert page.evaluate("fill()")
            page.wait_for_timeout(6000)  # Local Storage is written after some seconds
            browser.close()
        root = pathlib.Path(profile) / "Default"
        [stored] = root.glob("IndexedDB/*.leveldb")
        copy(stored, to / "indexeddb")
        copy(root / "Local Storage" / "leveldb", to / "localstorage")
    server.shutdown()


def copy(source, to):
    """Copies a directory without the engine's log of messages."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(source, to, ignore=shutil.ignore_patterns("LOG*", "LOCK"))


def bedrock(to):
    """Keys of chunks are x, z, a tag and a height, as of Minecraft 1.18."""
    r = random.Random(1)
    shutil.rmtree(to, ignore_errors=True)
    db = leveldb.LevelDB(str(to), create_if_missing=True)
    for x in range(-4, 4):
        for z in range(-4, 4):
            chunk = struct.pack("<ii", x, z)
            for height in range(4):
                blocks = bytes(r.choice((0, 1, 1, 1, 9)) for _ in range(700))
                db.put(chunk + struct.pack("<bb", 0x2F, height), blocks)
            db.put(chunk + b"\x2c", b"\x28")
    db.put(b"~local_player", b"\x0a\x00\x00" + bytes(500))
    db.put(b"BiomeData", b"\x0a\x00\x00\x00")
    db.delete(struct.pack("<ii", 3, 3) + b"\x2c")
    db.compact_range(None, None) if hasattr(db, "compact_range") else db.compact()
    db.put(b"~local_player", b"\x0a\x00\x00" + bytes(600))
    db.close()
    for name in ("LOG", "LOG.old", "LOCK"):
        (to / name).unlink(missing_ok=True)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    chromium(folder)
    bedrock(folder / "bedrock")
