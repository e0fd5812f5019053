//! Charts: axes, ticks, series, and their legend, one column of print wide.

use crate::picture::{Anchor, BLACK, Colour, PALE, Picture, WHITE};

/// 8.6 cm.
pub const WIDTH: f32 = 243.8;
/// Height of a chart.
pub const HEIGHT: f32 = 196.0;
/// Size of all text.
pub const TEXT: f32 = 8.0;
const LEFT: f32 = 40.0;
const RIGHT: f32 = 8.0;
const TOP: f32 = 30.0;
const BOTTOM: f32 = 32.0;

/// How numbers lie on an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithms; what is less than the start is drawn there.
    Logarithmic,
    /// By their logarithms, with 0 at the start of the axis.
    LogarithmicWithZero,
}

/// An axis.
pub struct Axis {
    /// What is written beside the axis.
    pub label: String,
    /// The number at its start: above 0 if the scale is logarithmic.
    pub from: f64,
    /// The number at its end, above `from`.
    pub to: f64,
    /// How the numbers between them lie.
    pub scale: Scale,
}

impl Axis {
    /// Where a number lies, between 0 and 1.
    fn place(&self, number: f64) -> f32 {
        let place = match self.scale {
            Scale::Linear => (number - self.from) / (self.to - self.from),
            Scale::Logarithmic | Scale::LogarithmicWithZero => {
                (number.max(self.from) / self.from).log10() / (self.to / self.from).log10()
            }
        };
        place as f32
    }

    /// Numbers and their labels.
    fn ticks(&self) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Linear => {
                // At most eight steps of 1, 2 or 5 times a power of ten.
                let least = (self.to - self.from) / 8.0;
                let power = 10f64.powf(least.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0]
                    .map(|k| k * power)
                    .into_iter()
                    .find(|&step| step >= least);
                let step = step.unwrap_or(10.0 * power);
                let digits = (-step.log10().floor()).max(0.0) as usize;
                let first = (self.from / step).ceil() as i64;
                let last = (self.to / step + 1e-9).floor() as i64;
                (first..=last)
                    .map(|i| (i as f64 * step, format!("{:.digits$}", i as f64 * step)))
                    .collect()
            }
            Scale::Logarithmic | Scale::LogarithmicWithZero => {
                let powers = (self.from.log10() - 1e-9).ceil() as i32
                    ..=(self.to.log10() + 1e-9).floor() as i32;
                let zero = (self.scale == Scale::LogarithmicWithZero)
                    .then(|| (self.from, "0".to_owned()));
                zero.into_iter()
                    .chain(powers.map(|power| (10f64.powi(power), power_label(power))))
                    .collect()
            }
        }
    }
}

/// Powers of ten as people write them in print.
pub fn power_label(power: i32) -> String {
    match power {
        0 => "1".to_owned(),
        -2..0 => format!("{}", 10f64.powi(power)),
        _ => {
            let superscript = |c: char| match c {
                '-' => '\u{207b}',
                '1' => '\u{b9}',
                '2' => '\u{b2}',
                '3' => '\u{b3}',
                digit => char::from_u32(0x2070 + digit as u32 - '0' as u32).unwrap_or(digit),
            };
            format!("10{}", power.to_string().chars().map(superscript).collect::<String>())
        }
    }
}

/// What marks the points of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Nothing: the line alone shows them.
    None,
    /// A filled circle.
    Disc,
    /// A circle, white inside.
    Ring,
}

/// Points that belong together.
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Numbers on the two axes, in the order in which a line joins them.
    pub points: Vec<(f64, f64)>,
    /// Of line and markers.
    pub colour: Colour,
    /// What marks each point.
    pub marker: Marker,
    /// Whether the points are joined, and by what dashes.
    pub line: Option<Option<f32>>,
    /// Points that lie further apart than this on the first axis are not joined.
    pub reach: f64,
    /// Intervals on the second axis, each with its place on the first.
    pub intervals: Vec<(f64, [f64; 2])>,
}

impl Series {
    /// Points without intervals, which are joined however far apart they lie.
    pub fn of(
        name: impl Into<String>,
        points: Vec<(f64, f64)>,
        colour: Colour,
        marker: Marker,
        line: Option<Option<f32>>,
    ) -> Self {
        let (reach, intervals) = (f64::INFINITY, Vec::new());
        Series { name: name.into(), points, colour, marker, line, reach, intervals }
    }
}

/// A chart of several that lie one above the other, with the same axes and the same legend.
pub struct Panel {
    /// What it is about.
    pub name: String,
    /// One for each entry of the legend.
    pub series: Vec<Series>,
}

/// Where the axes of a chart enclose its points.
#[derive(Clone, Copy)]
struct Frame {
    top: f32,
    height: f32,
}

impl Frame {
    const WIDTH: f32 = WIDTH - LEFT - RIGHT;

    fn bottom(self) -> f32 {
        self.top + self.height
    }
}

/// Draws a chart, with its legend above it in two columns.
pub fn chart(title: &str, x: &Axis, y: &Axis, series: &[Series]) -> Picture {
    let mut picture = Picture::new(title, WIDTH, HEIGHT);
    let frame = Frame { top: TOP, height: HEIGHT - TOP - BOTTOM };
    axes(&mut picture, frame, (x, true), (y, &y.label));
    curves(&mut picture, frame, x, y, series);
    legend(&mut picture, 2, series);
    picture
}

/// Height of a panel.
const PANEL: f32 = 128.0;
/// Between a panel and the next.
const GAP: f32 = 8.0;

/// Draws panels, the first above the others, with the legend of the first above them all.
pub fn panels(title: &str, x: &Axis, y: &Axis, panels: &[Panel]) -> Picture {
    let series: &[Series] = panels.first().map_or(&[], |panel| &panel.series);
    // Widths do not depend on what is in a picture.
    let picture = Picture::new("", 0.0, 0.0);
    let widest = series.iter().map(|one| picture.text_width(TEXT - 1.0, &one.name));
    let entry = SAMPLE + 10.0 + widest.fold(0.0, f32::max);
    let columns = ((Frame::WIDTH / entry) as usize).max(1);
    let top = 12.0 + ENTRY * series.len().div_ceil(columns).max(1) as f32;
    let count = panels.len() as f32;
    let height = top + count * PANEL + (count - 1.0) * GAP + BOTTOM;
    let mut picture = Picture::new(title, WIDTH, height);
    for (i, panel) in panels.iter().enumerate() {
        let frame = Frame { top: top + i as f32 * (PANEL + GAP), height: PANEL };
        let label = format!("{}, {}", y.label, panel.name);
        axes(&mut picture, frame, (x, i + 1 == panels.len()), (y, &label));
        curves(&mut picture, frame, x, y, &panel.series);
    }
    legend(&mut picture, columns, series);
    picture
}

/// Where a point lies in a picture.
fn place(frame: Frame, x: &Axis, y: &Axis, (a, b): (f64, f64)) -> (f32, f32) {
    (LEFT + Frame::WIDTH * x.place(a), frame.top + frame.height * (1.0 - y.place(b)))
}

/// The frame, with ticks and grid, and the label of the axes; that of the lower one is left out
/// with its ticks if it is not `shown`.
fn axes(
    picture: &mut Picture,
    frame: Frame,
    (x, shown): (&Axis, bool),
    (y, label): (&Axis, &str),
) {
    let (top, bottom, right) = (frame.top, frame.bottom(), LEFT + Frame::WIDTH);
    for (number, label) in x.ticks() {
        let (at, _) = place(frame, x, y, (number, y.from));
        picture.line(&[(at, top), (at, bottom)], 0.4, None, PALE);
        if shown {
            picture.line(&[(at, bottom), (at, bottom + 3.0)], 0.6, None, BLACK);
            picture.text((at, bottom + 11.5), TEXT, Anchor::Middle, false, &label);
        }
    }
    for (number, label) in y.ticks() {
        let (_, at) = place(frame, x, y, (x.from, number));
        picture.line(&[(LEFT, at), (right, at)], 0.4, None, PALE);
        picture.line(&[(LEFT - 3.0, at), (LEFT, at)], 0.6, None, BLACK);
        picture.text((LEFT - 5.0, at + 2.8), TEXT, Anchor::End, false, &label);
    }
    let corners = [(LEFT, top), (right, top), (right, bottom), (LEFT, bottom), (LEFT, top)];
    picture.line(&corners, 0.6, None, BLACK);
    if shown {
        let middle = LEFT + Frame::WIDTH / 2.0;
        let at = (middle, bottom + BOTTOM - 6.0);
        picture.text(at, TEXT, Anchor::Middle, false, &x.label);
    }
    let at = (9.0, top + frame.height / 2.0);
    picture.text(at, TEXT, Anchor::Middle, true, label);
}

fn curves(picture: &mut Picture, frame: Frame, x: &Axis, y: &Axis, series: &[Series]) {
    for one in series {
        if let Some(dash) = one.line {
            let runs = one.points.chunk_by(|a, b| b.0 - a.0 <= one.reach);
            for joined in runs.filter(|run| run.len() > 1) {
                let joined: Vec<(f32, f32)> =
                    joined.iter().map(|&point| place(frame, x, y, point)).collect();
                picture.line(&joined, 0.8, dash, one.colour);
            }
        }
        for &(at, ends) in &one.intervals {
            let ends = ends.map(|end| place(frame, x, y, (at, end)));
            picture.line(&ends, 0.6, None, one.colour);
            for (x, y) in ends {
                picture.line(&[(x - 1.5, y), (x + 1.5, y)], 0.6, None, one.colour);
            }
        }
        one.points.iter().for_each(|&point| mark(picture, place(frame, x, y, point), one));
    }
}

/// Length of the line that stands for a series in the legend.
const SAMPLE: f32 = 16.0;
/// Height of a line of the legend.
const ENTRY: f32 = 10.0;

fn legend(picture: &mut Picture, columns: usize, series: &[Series]) {
    for (i, one) in series.iter().enumerate() {
        let left = LEFT + (i % columns) as f32 * Frame::WIDTH / columns as f32;
        let at = 8.0 + ENTRY * (i / columns) as f32;
        if let Some(dash) = one.line {
            picture.line(&[(left, at), (left + SAMPLE, at)], 0.8, dash, one.colour);
        }
        mark(picture, (left + SAMPLE / 2.0, at), one);
        let at = (left + SAMPLE + 4.0, at + 2.5);
        picture.text(at, TEXT - 1.0, Anchor::Start, false, &one.name);
    }
}

fn mark(picture: &mut Picture, (x, y): (f32, f32), series: &Series) {
    match series.marker {
        Marker::None => {}
        Marker::Disc => picture.disc(x, y, 1.7, series.colour),
        Marker::Ring => {
            picture.disc(x, y, 1.7, WHITE);
            picture.ring(x, y, 1.7, 0.7, series.colour);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::{BLUE, PictureFormat};

    /// What is alone has its mark still.
    #[test]
    fn no_line_leads_across_what_is_missing() {
        for (reach, lines) in [(f64::INFINITY, 1), (2.0, 1), (1.0, 0)] {
            let series = Series {
                name: "m even".to_owned(),
                points: [0.0, 2.0, 6.0, 10.0].map(|x| (x, 1.0)).into(),
                colour: BLUE,
                marker: Marker::Disc,
                line: Some(None),
                reach,
                intervals: Vec::new(),
            };
            let axis = || Axis { label: String::new(), from: 0.0, to: 10.0, scale: Scale::Linear };
            let picture = chart("", &axis(), &axis(), &[series]).render(PictureFormat::Svg);
            let svg = String::from_utf8(picture).unwrap();
            let count = |what: &str| svg.matches(what).count();
            // One more of each is in the legend.
            assert_eq!(count("stroke=\"#0072b2\""), lines + 1, "{reach}");
            assert_eq!(count("fill=\"#0072b2\""), 4 + 1, "{reach}");
        }
    }
}
