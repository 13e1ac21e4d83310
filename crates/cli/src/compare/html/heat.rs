// SPDX-License-Identifier: MIT OR Apache-2.0
//! The overview: workloads as rows, devices and memory as columns, the ratio to linux in each cell,
//! from blue (less stall) to orange (more). The numbers say the same without colours.

use foreread_sim::matrix::Cell;

use super::super::{Compared, place_of};
use super::{by_device, escaped};

/// The lowest ratio of each class but the first.
const CLASSES: [(f64, &str); 9] = [
    (0.0, "b4"),
    (0.35, "b3"),
    (0.6, "b2"),
    (0.85, "b1"),
    (0.95, "n"),
    (1.05, "o1"),
    (1.18, "o2"),
    (1.67, "o3"),
    (2.86, "o4"),
];

/// A column: a device, and the place of a cell on it.
type Column = (String, String);

pub fn map(compared: &Compared, place: usize) -> String {
    let matrix = &compared.matrix;
    let policy = matrix.policies[place];
    let columns = columns(compared);
    let mut table = format!(
        "<h2>Overview: {policy} against linux</h2>\n<p class=\"soft\">Stall under {policy} over that \
         under linux, by workload, device and memory.</p>\n{}<div class=\"scroll\" tabindex=\"0\">\n\
         <table class=\"heat\" aria-label=\"Stall under {policy} over that under linux\">\n\
         <thead>\n<tr><td></td>",
        scale()
    );
    for (device, count) in devices(&columns) {
        table += &format!(
            "<th scope=\"colgroup\" class=\"first\" colspan=\"{count}\">{}</th>",
            escaped(device)
        );
    }
    table += "</tr>\n<tr><td></td>";
    for (number, (_, memory)) in columns.iter().enumerate() {
        table += &format!(
            "<th scope=\"col\"{}>{}</th>",
            first(&columns, number),
            escaped(memory)
        );
    }
    table += "</tr>\n</thead>\n<tbody>\n";
    for number in 0..matrix.workloads.len() {
        table += &row(compared, place, number, &columns);
    }
    table + "</tbody>\n</table>\n</div>\n"
}

/// All columns that any workload has, by device.
fn columns(compared: &Compared) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    let mut devices: Vec<&str> = Vec::new();
    for cell in &compared.matrix.cells {
        if !devices.contains(&&*cell.run.device.name) {
            devices.push(&cell.run.device.name);
        }
    }
    for device in devices {
        let cells = compared.matrix.cells.iter();
        let mut cells: Vec<&Cell> = cells.filter(|c| c.run.device.name == device).collect();
        cells.sort_by_key(|cell| cell.run.memory_pages);
        for cell in cells {
            let column = (device.to_owned(), place_of(compared, cell));
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
    }
    columns
}

fn devices(columns: &[Column]) -> Vec<(&str, usize)> {
    let groups = columns.chunk_by(|one, other| one.0 == other.0);
    groups.map(|group| (&*group[0].0, group.len())).collect()
}

/// The first column of a device stands apart.
fn first(columns: &[Column], number: usize) -> &'static str {
    match number {
        0 => " class=\"first\"",
        number if columns[number - 1].0 != columns[number].0 => " class=\"first\"",
        _ => "",
    }
}

fn row(compared: &Compared, place: usize, workload: usize, columns: &[Column]) -> String {
    let name = escaped(&compared.matrix.workloads[workload].name);
    let cells = by_device(compared, workload);
    let mut row = format!("<tr><th scope=\"row\"><a href=\"#w-{name}\">{name}</a></th>");
    for (number, (device, memory)) in columns.iter().enumerate() {
        let on_device = cells.iter().find(|(name, _)| name == device);
        let mut on_device = on_device.iter().flat_map(|(_, cells)| cells);
        let cell = on_device.find(|cell| place_of(compared, cell) == *memory);
        let ratio = cell.and_then(|cell| compared.matrix.to_base(cell, place));
        let is_first = !first(columns, number).is_empty();
        row += &match ratio {
            Some(ratio) => format!(
                "<td class=\"{}{}\">{}</td>",
                class(ratio),
                if is_first { " first" } else { "" },
                short(ratio)
            ),
            None => "<td></td>".to_owned(),
        };
    }
    row + "</tr>\n"
}

fn class(ratio: f64) -> &'static str {
    let below = CLASSES.iter().rev().find(|(from, _)| ratio >= *from);
    below.map_or("n", |(_, class)| class)
}

/// A ratio in at most four characters.
pub fn short(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 9.95 => format!("{ratio:.0}"),
        ratio if ratio >= 1.995 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.2}"),
    }
}

fn scale() -> String {
    let mut list = String::from("<ul class=\"scale\" aria-label=\"Colours\">\n");
    for (number, (from, class)) in CLASSES.iter().enumerate() {
        let to = CLASSES.get(number + 1).map(|(to, _)| short(*to));
        let range = match to {
            Some(to) if *from == 0.0 => format!("below {to}"),
            Some(to) => format!("{} to {to}", short(*from)),
            None => format!("{} and more", short(*from)),
        };
        list += &format!("<li class=\"{class}\">{range}</li>\n");
    }
    list + "</ul>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_is_neutral_and_the_ends_are_symmetrical() {
        assert_eq!(class(1.0), "n");
        assert_eq!((class(0.0), class(1e9)), ("b4", "o4"));
        for ratio in [1.1, 1.5, 2.0, 4.0] {
            assert_eq!(class(ratio)[1..], class(1.0 / ratio)[1..], "{ratio}");
        }
        assert_eq!(
            [short(0.0), short(1.996), short(12.4), short(2100.0)],
            ["0.00", "2.0", "12", "2100"]
        );
    }
}
