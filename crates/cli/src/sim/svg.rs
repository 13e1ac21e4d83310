// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--svg`: windows over time, a strip for each run. A window is a bar from its first to its last
//! page at the time of its decision; the dot is where the program was.

use foreread_sim::engine::{Outcome, WindowSeen};
use foreread_sim::scenario::Combination;

use super::Ran;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 34.0;
const GAP: f64 = 56.0;
/// Streams are told apart by colour, in turn.
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];

pub fn of(ran: &Ran) -> String {
    let strips = ran.runs.len() as f64;
    let (width, height) = (LEFT + WIDTH + 20.0, strips * (HEIGHT + GAP) + TOP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let runs = ran.runs.iter().zip(&ran.outcomes).enumerate();
    for (number, (run, outcome)) in runs {
        let top = TOP + number as f64 * (HEIGHT + GAP);
        svg += &strip(run, outcome, top);
    }
    svg + "</svg>\n"
}

fn strip(run: &Combination, outcome: &Outcome, top: f64) -> String {
    let last_page = outcome.windows.iter().map(|w| w.start + w.pages).max();
    let last_page = last_page.unwrap_or(1).max(1) as f64;
    let last_ns = outcome.elapsed_ns.max(1) as f64;
    let x = |ns: u64| LEFT + ns as f64 / last_ns * WIDTH;
    let y = |page: u64| top + HEIGHT - page as f64 / last_page * HEIGHT;
    let title = format!(
        "{} on {}, read-ahead {} KiB{}",
        run.policy,
        run.device.name,
        u64::from(run.read_ahead_pages) * 4,
        match outcome.windows_dropped {
            0 => String::new(),
            more => format!("; {more} later windows not drawn"),
        }
    );
    let mut svg = format!(
        "<g><text x=\"{LEFT}\" y=\"{:.0}\">{}</text>\n\
         <rect x=\"{LEFT}\" y=\"{top:.0}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" \
         stroke=\"#999\"/>\n\
         <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">page {last_page}</text>\n\
         <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\n",
        top - 8.0,
        escaped(&title),
        LEFT - 4.0,
        top + 12.0,
        LEFT + WIDTH,
        top + HEIGHT + 16.0,
        super::human::time(outcome.elapsed_ns),
    );
    for window in &outcome.windows {
        svg += &bar(window, &x, &y);
    }
    svg + "</g>\n"
}

fn bar(window: &WindowSeen, x: &impl Fn(u64) -> f64, y: &impl Fn(u64) -> f64) -> String {
    let colour = COLOURS[window.stream.number() % COLOURS.len()];
    let at = x(window.time_ns);
    format!(
        "<path d=\"M{at:.1} {:.1}V{:.1}\" stroke=\"{colour}\"><title>{}+{} {}</title></path>\
         <circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"1.2\"/>\n",
        y(window.start),
        y(window.start + window.pages),
        window.start,
        window.pages,
        window.reason,
        y(window.index),
    )
}

fn escaped(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;")
}
