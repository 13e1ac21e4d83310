// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages as a browser lays them out.

use std::fs;
use std::process::Command;

use super::{World, stderr, stdout};

/// A browser that is there; says so when there is none.
pub fn find() -> Option<&'static str> {
    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let browser = browsers.into_iter().find(runs);
    if browser.is_none() {
        println!("skipped: no chromium here to lay the page out");
    }
    browser
}

/// What a script finds in a page that is so many px wide. The script is an expression; it stands in
/// a frame of that width, as no window of the browser is narrower than 500 px.
pub fn measured(browser: &str, world: &World, page: &str, width: u32, script: &str) -> String {
    let probe = format!(
        "<script>addEventListener('load', () => parent.postMessage(String({script}), '*'));\
         </script></body>"
    );
    fs::write(world.path("probe.html"), page.replace("</body>", &probe)).expect("a page");
    let frame = format!(
        "<!doctype html><title>nothing</title><script>addEventListener('message', event => {{ \
         document.title = event.data }})</script><iframe src=\"probe.html\" \
         style=\"width:{width}px;height:900px;border:0\"></iframe>"
    );
    fs::write(world.path("frame.html"), frame).expect("a page");
    let output = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--allow-file-access-from-files",
            "--virtual-time-budget=20000",
            "--dump-dom",
        ])
        .arg(format!("--window-size={},900", width.max(500) + 40))
        .arg(format!(
            "--user-data-dir={}",
            world.path("browser").display()
        ))
        .arg(format!("file://{}", world.path("frame.html").display()))
        .output()
        .expect("it ran before");
    let dom = stdout(&output);
    let title = dom
        .split("<title>")
        .nth(1)
        .and_then(|rest| rest.split("</title>").next());
    let title = title.filter(|title| *title != "nothing");
    title
        .unwrap_or_else(|| panic!("{dom} {}", stderr(&output)))
        .to_owned()
}
