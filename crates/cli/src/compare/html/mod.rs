// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--html`: one page with everything in it. Style and pictures are inline, and there is no script.

mod chart;
mod heat;
mod tables;

use super::human::memories;
use super::{Compared, subjects};
use crate::picture::page::{self, html as escaped};
use crate::picture::style;
use foreread_sim::matrix::Cell;

const STYLE: &str = include_str!("style.css");

pub fn page(compared: &Compared) -> String {
    let matrix = &compared.matrix;
    let names: Vec<&str> = matrix.policies.iter().map(|policy| policy.name()).collect();
    let title = format!("foreread compare: {}", names.join(", "));
    let mut page = page::begin(&title, STYLE);
    page += &format!(
        "<header>\n<h1>{title}</h1>\n\
         <p>{} workloads on modelled devices, with {} of memory: {} cells. Stall is the time that \
         programs waited for pages; a ratio below 1 is less of it than under linux.</p>\n\
         <p><a href=\"#summary\">Summary</a> · <a href=\"#overview\">Overview</a> · \
         <a href=\"#workloads\">Workloads</a></p>\n</header>\n<main>\n",
        matrix.workloads.len(),
        memories(compared),
        matrix.cells.len(),
    );
    page += "<section id=\"summary\">\n<h2>Summary</h2>\n";
    for part in compared.parts() {
        page += &tables::summary(compared, &part);
    }
    page += "</section>\n<section id=\"overview\">\n";
    for place in subjects(compared) {
        page += &heat::map(compared, place);
    }
    page += "</section>\n<section id=\"workloads\">\n<h2>Workloads</h2>\n";
    page += "<p class=\"soft\">Stall over that of linux, which is the dashed line. Bars that are \
             cut at 2 have their number on them. Groups are sizes of memory.</p>\n";
    page += &legend(compared);
    for number in 0..matrix.workloads.len() {
        page += &workload(compared, number);
    }
    page + "</section>\n</main>\n" + page::END
}

/// The policies that have bars, with their colours.
fn legend(compared: &Compared) -> String {
    let mut list = String::from("<ul class=\"legend\" aria-label=\"Policies\">\n");
    for place in chart::bars(compared) {
        list += &format!(
            "<li><svg viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect class=\"{}\" width=\"10\" \
             height=\"10\"/></svg>{}</li>\n",
            colour(place),
            compared.matrix.policies[place]
        );
    }
    list + "<li><svg viewBox=\"0 0 10 10\" aria-hidden=\"true\"><path class=\"base\" \
            d=\"M0 5H10\"/></svg>linux</li>\n</ul>\n"
}

/// The class of a policy's bars; more policies than colours take turns. The first policy is linux,
/// which has a line instead of bars.
fn colour(place: usize) -> String {
    let colours = style::series();
    let number = place.saturating_sub(1) % colours.len();
    let name = colours.into_iter().nth(number).unwrap_or("grey");
    format!("fill-{name}")
}

/// The cells of a workload on one device.
type OnDevice<'a> = (&'a str, Vec<&'a Cell>);

/// The cells of a workload by device, in order.
fn by_device(compared: &Compared, workload: usize) -> Vec<OnDevice<'_>> {
    let mut devices: Vec<OnDevice<'_>> = Vec::new();
    let cells = compared.matrix.cells.iter();
    for cell in cells.filter(|cell| cell.workload == workload) {
        let name = &*cell.run.device.name;
        match devices.iter_mut().find(|(device, _)| *device == name) {
            Some((_, cells)) => cells.push(cell),
            None => devices.push((name, vec![cell])),
        }
    }
    devices
}

fn workload(compared: &Compared, number: usize) -> String {
    let workload = &compared.matrix.workloads[number];
    let scenario = &workload.scenario;
    let name = escaped(&workload.name);
    let held_out = compared.held_out.as_ref().is_some_and(|held| held[number]);
    let mut notes = Vec::new();
    if scenario.is_random {
        notes.push("random: nothing can be won by reading ahead");
    }
    if held_out {
        notes.push("held out");
    }
    let notes = match notes.is_empty() {
        true => String::new(),
        false => format!(" <span class=\"soft\">({})</span>", notes.join("; ")),
    };
    let mut article = format!(
        "<article id=\"w-{name}\">\n<h3>{name}</h3>\n<p>{}{notes}</p>\n<div class=\"charts\">\n",
        escaped(&scenario.about)
    );
    for (device, cells) in by_device(compared, number) {
        article += &chart::figure(compared, &workload.name, device, &cells);
    }
    article += "</div>\n";
    article += &tables::numbers(compared, number);
    article + "</article>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_the_first_policies_has_a_colour_of_its_own() {
        let count = style::series().len();
        let colours: std::collections::BTreeSet<_> = (1..=count).map(colour).collect();
        assert_eq!(colours.len(), count);
        assert_eq!(colour(1), colour(count + 1));
    }
}
