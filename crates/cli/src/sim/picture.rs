// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--svg`: windows over time, a panel for each run, and in it a lane for each stream: what one
//! program reads of one file.
//!
//! In: the windows that a run kept. Out: SVG. A window is a box from the time at which it was asked
//! for to the first use of its pages, which for a sequential reader is a slope. Colours say what
//! became of the pages, the pale part that they were on their way. All panels have one scale of
//! time and, for a lane, one scale of pages. A run that is short beside the longest is drawn once
//! more, stretched.

mod boxes;
mod lanes;

use foreread_core::grouped;
use foreread_sim::engine::Outcome;

use super::Ran;
use super::human::{coordinates, time};
use crate::output::counted;
use crate::picture::axis::{TimeAxis, rounded};
use crate::picture::frame::{self, AXIS_HEIGHT, Entry, Mark, Span};
use crate::picture::svg::{Svg, group, label, rect};
use boxes::{Drawing, LEGEND};
use lanes::{LABEL_HEIGHT, Lane, RUG_GAP, RUG_HEIGHT, lanes};

const WIDTH: u32 = 1000;
const SPAN: Span = Span {
    left: 84.0,
    width: 892.0,
};
/// Title and the line below it.
const TOP: f64 = 70.0;
/// The lines above a panel, and the room below it.
const HEAD_HEIGHT: f64 = 46.0;
const FOOT_HEIGHT: f64 = AXIS_HEIGHT + 18.0;
/// Runs that are drawn.
const PANELS_MAX: usize = 24;
/// A run that takes less than this share of the longest one is drawn once more, stretched.
const STRETCHED_BELOW: f64 = 0.2;
/// Where that is.
const STRETCHED: Span = Span {
    left: 250.0,
    width: SPAN.width - 250.0,
};
const MARGIN: f64 = 26.0;

/// What panels share.
struct Shared {
    times: TimeAxis,
    lanes: Vec<Lane>,
    left_out: usize,
    longest_ns: u64,
}

impl Shared {
    fn lanes_height(&self) -> f64 {
        self.lanes.iter().map(Lane::whole_height).sum()
    }

    fn panel_height(&self) -> f64 {
        HEAD_HEIGHT + self.lanes_height() + FOOT_HEIGHT
    }
}

pub fn of(ran: &Ran) -> String {
    let drawn = ran.runs.len().min(PANELS_MAX);
    let longest_ns = ran.outcomes.iter().take(drawn).map(|o| o.elapsed_ns).max();
    let longest_ns = longest_ns.unwrap_or(0).max(1);
    let (lanes, left_out) = lanes(ran, drawn);
    let shared = Shared {
        times: TimeAxis::new(0, longest_ns, SPAN.width),
        lanes,
        left_out,
        longest_ns,
    };
    let legend_height = frame::legend_height(&LEGEND, SPAN.width);
    let first = TOP + legend_height + 8.0;
    let height = first + shared.panel_height() * drawn as f64;
    let title = title(ran);
    let mut svg = frame::titled(WIDTH, height.ceil() as u32, SPAN.left, &title, boxes::STYLE);
    let at = (SPAN.left, 52.0);
    frame::note(&mut svg, at, SPAN.width, &note(ran, &shared, drawn));
    frame::legend(&mut svg, SPAN, TOP + 6.0, &LEGEND);
    for number in 0..drawn {
        let top = first + shared.panel_height() * number as f64;
        group(&mut svg, SPAN.left, top);
        panel(&mut svg, ran, number, &shared);
        svg.end();
    }
    svg.finish()
}

fn title(ran: &Ran) -> String {
    let about = ran.scenario.about.lines().next().unwrap_or_default();
    match about.is_empty() {
        true => "Windows over time".to_owned(),
        false => format!("Windows over time: {about}"),
    }
}

/// What is drawn, and what isn't.
fn note(ran: &Ran, shared: &Shared, drawn: usize) -> String {
    let mut said = "Each box is a window; its left edge is the decision, its right edge the first \
                    use of each page"
        .to_owned();
    if shared.left_out > 0 {
        let streams = counted(shared.left_out as u64, "stream", "streams");
        said += &format!("; {streams} with fewer pages not drawn");
    }
    let more = ran.runs.len() - drawn;
    if more > 0 {
        said += &format!(
            "; {} not drawn",
            counted(more as u64, "more run", "more runs")
        );
    }
    said
}

/// A run: its names and numbers, its lanes, the axis of time.
fn panel(svg: &mut Svg, ran: &Ran, number: usize, shared: &Shared) {
    let outcome = &ran.outcomes[number];
    let names = coordinates(ran).into_iter();
    let names: Vec<String> = names
        .map(|(name, of)| match name {
            "policy" => of(&ran.runs[number]),
            "device" => format!("on {}", of(&ran.runs[number])),
            name => format!(", {name} {}", of(&ran.runs[number])),
        })
        .collect();
    let name = names.join(" ").replace(" ,", ",");
    frame::name(svg, (0.0, 12.0), SPAN.width, &name);
    frame::note(svg, (0.0, 31.0), SPAN.width, &numbers(outcome));
    let stretched = stretch(outcome, shared);
    let mut top = HEAD_HEIGHT;
    for lane in &shared.lanes {
        group(svg, 0.0, top);
        if shared.lanes.len() > 1 {
            frame::note(svg, (0.0, LABEL_HEIGHT - 6.0), SPAN.width, &lane.name);
        }
        group(svg, 0.0, lane.label_height);
        plot(svg, lane, &shared.times, SPAN.width);
        frame::numbers_left(svg, lane.positions.ticks());
        rug_names(svg, lane);
        draw(svg, lane, outcome, &shared.times);
        if let Some(times) = &stretched {
            group(svg, STRETCHED.left, 0.0);
            let size = (
                MARGIN + STRETCHED.width,
                lane.whole_height() - lane.label_height,
            );
            rect(svg, "paper", (-MARGIN, -1.0), size, None);
            plot(svg, lane, times, STRETCHED.width);
            draw(svg, lane, outcome, times);
            svg.end();
        }
        svg.end();
        svg.end();
        top += lane.whole_height();
    }
    group(svg, 0.0, top);
    time_axis(svg, outcome, shared, stretched.as_ref());
    svg.end();
}

/// The scale of a run that is short beside the longest.
fn stretch(outcome: &Outcome, shared: &Shared) -> Option<TimeAxis> {
    let share = outcome.elapsed_ns as f64 / shared.longest_ns as f64;
    let is_short = share < STRETCHED_BELOW && outcome.elapsed_ns > 0;
    is_short.then(|| TimeAxis::new(0, outcome.elapsed_ns, STRETCHED.width))
}

fn time_axis(svg: &mut Svg, outcome: &Outcome, shared: &Shared, stretched: Option<&TimeAxis>) {
    let mut ticks = shared.times.ticks();
    let what = format!("time, {}", shared.times.unit);
    let Some(times) = stretched else {
        frame::axis_below(svg, &ticks, (SPAN.width, 0.0), &what);
        return;
    };
    ticks.retain(|tick| tick.at < STRETCHED.left - MARGIN - 16.0);
    frame::axis_below(
        svg,
        &ticks,
        (STRETCHED.left - MARGIN, 0.0),
        shared.times.unit,
    );
    group(svg, STRETCHED.left, 0.0);
    let factor = shared.longest_ns as f64 / outcome.elapsed_ns.max(1) as f64;
    let factor = factor * STRETCHED.width / SPAN.width;
    let what = format!("{}; the same, stretched {factor:.1} times", times.unit);
    frame::axis_below(svg, &times.ticks(), (STRETCHED.width, 0.0), &what);
    svg.end();
}

fn numbers(outcome: &Outcome) -> String {
    let (total, pages) = (&outcome.total, &outcome.total.pages);
    let unread = pages.resident_unused + pages.in_flight;
    let mut said = format!(
        "{}; programs waited {} in all; {} pages fetched: {} on time, {} late, {} wasted, {} unread",
        time(outcome.elapsed_ns),
        time(total.stall_ns),
        grouped(pages.fetched),
        grouped(pages.used_on_time),
        grouped(pages.used_late),
        grouped(pages.wasted),
        grouped(unread),
    );
    if outcome.windows_dropped > 0 {
        let more = grouped(outcome.windows_dropped);
        said += &format!("; {more} later windows not drawn");
    }
    said
}

/// The background of a lane, and of its rug.
fn plot(svg: &mut Svg, lane: &Lane, times: &TimeAxis, width: f64) {
    for stretch in &lane.positions.stretches {
        let size = (width, stretch.height);
        rect(svg, "plot", (0.0, stretch.top()), size, None);
    }
    frame::grid_upright(svg, &times.ticks(), lane.height);
}

/// What the rows below a lane are.
fn rug_names(svg: &mut Svg, lane: &Lane) {
    for (row, name) in ["sync", "async"].into_iter().enumerate() {
        let at = (
            -8.0,
            lane.height + RUG_HEIGHT * (row as f64 + 1.0) + RUG_GAP - 2.0,
        );
        label(svg, at, "end", "quiet", name);
    }
}

fn draw(svg: &mut Svg, lane: &Lane, outcome: &Outcome, times: &TimeAxis) {
    let mut drawing = Drawing::new(lane, times, outcome.elapsed_ns);
    let windows = outcome.windows.iter();
    let windows: Vec<_> = windows.filter(|window| lane.has(window)).collect();
    drawing.windows(svg, &windows);
    let end = rounded(times.at(outcome.elapsed_ns));
    let line = format!("M{end} 0V{}", rounded(lane.height));
    svg.empty("path", &[("class", &"end line-quiet"), ("d", &line)]);
}

/// The marks of decisions, for the legend.
const fn marks() -> [Entry<'static>; 2] {
    [
        (
            Mark::Dot,
            boxes::SYNC_DOT,
            "synchronous: a program needs a page of it",
        ),
        (
            Mark::Dot,
            boxes::ASYNC_DOT,
            "asynchronous: ahead, at a mark",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use foreread_sim::Scenario;
    use foreread_sim::engine::Keep;

    use super::*;
    use crate::picture::check::{assert_labels_fit, assert_well_formed, labels, texts};
    use crate::sim::subject::Played;

    fn ran(text: &str) -> Ran {
        let scenario = Scenario::parse("x.toml", text).expect("a scenario");
        let runs = scenario.combinations();
        let keep = Keep {
            windows: true,
            ..Keep::default()
        };
        let outcomes = runs.iter().map(|run| {
            let setup = scenario.setup(run);
            Played::Written.run(&setup, keep).expect("a run")
        });
        Ran {
            outcomes: outcomes.collect(),
            checked: Vec::new(),
            runs,
            scenario,
        }
    }

    const TWO: &str = r#"
about = "A reader and a <jumper> & more"
[machine]
memory = "2M"
[device]
preset = ["hdd", "nvme"]
[readahead]
size = "128K"
policy = ["linux", "none"]
[[file]]
name = "data"
size = "8M"
[[file]]
name = "<b>"
size = "8M"
[[program]]
name = "reader"
file = "data"
request = "16K"
cpu_per_page = "1us"
[[program]]
name = "jumper"
file = "<b>"
pattern = "random"
requests = 60
"#;

    #[test]
    fn each_run_is_a_panel_with_its_lanes_and_the_legend_names_all() {
        let ran = ran(TWO);
        let svg = of(&ran);
        assert!(assert_well_formed(&svg) > 100);
        assert_labels_fit(&svg);
        let texts = texts(&svg);
        for (_, _, words) in LEGEND {
            assert!(texts.iter().any(|text| text == words), "{words}");
        }
        for name in [
            "linux on hdd, read-ahead 128K",
            "none on nvme, read-ahead 128K",
        ] {
            assert_eq!(
                texts.iter().filter(|text| *text == name).count(),
                1,
                "{name}"
            );
        }
        for lane in ["reader reads data", "jumper reads <b>"] {
            assert_eq!(
                texts.iter().filter(|text| *text == lane).count(),
                4,
                "{lane}"
            );
        }
        assert!(
            texts.iter().any(|text| text.contains("stretched")),
            "{texts:?}"
        );
    }

    /// A page is at one height in all panels: their numbers on the left are the same.
    #[test]
    fn all_panels_have_one_scale() {
        let svg = of(&ran(TWO));
        let ticks = labels(&svg).into_iter().filter(|label| label.is_tick);
        let mut by_text: std::collections::BTreeMap<String, Vec<f64>> = Default::default();
        for label in ticks.filter(|label| label.sides[2] < SPAN.left) {
            by_text.entry(label.text).or_default().push(label.sides[1]);
        }
        assert!(by_text.len() > 2, "{by_text:?}");
        for (text, mut tops) in by_text {
            tops.sort_by(f64::total_cmp);
            // Two lanes, four panels.
            let steps: Vec<f64> = tops.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let whole: f64 = steps.iter().sum();
            assert!(
                tops.len().is_multiple_of(4) && whole > 0.0,
                "{text}: {tops:?}"
            );
        }
    }

    #[test]
    fn nothing_and_too_much_are_drawn_too() {
        let nothing = TWO
            .replace("requests = 60", "requests = 1")
            .replace("8M", "4K");
        let many = "[machine]\nmemory = \"1M\"\n[readahead]\nsize = \"16K\"\n[[file]]\nname = \
            \"f\"\nsize = \"1M\"\ncount = 40\n[[program]]\nname = \"p\"\nfile = \"f\"\n";
        for text in [&*nothing, many] {
            let svg = of(&ran(text));
            assert_well_formed(&svg);
            assert_labels_fit(&svg);
        }
        assert!(of(&ran(many)).contains("streams with fewer pages not drawn"));
    }
}
