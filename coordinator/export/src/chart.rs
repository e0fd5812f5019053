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
}

/// Draws a chart, with its legend above it in two columns.
pub fn chart(title: &str, x: &Axis, y: &Axis, series: &[Series]) -> Picture {
    let mut picture = Picture::new(title, WIDTH, HEIGHT);
    let (width, height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let place =
        |(a, b): (f64, f64)| (LEFT + width * x.place(a), TOP + height * (1.0 - y.place(b)));
    for (number, label) in x.ticks() {
        let (at, _) = place((number, y.from));
        picture.line(&[(at, TOP), (at, TOP + height)], 0.4, None, PALE);
        picture.line(&[(at, TOP + height), (at, TOP + height + 3.0)], 0.6, None, BLACK);
        picture.text((at, TOP + height + 11.5), TEXT, Anchor::Middle, false, &label, BLACK);
    }
    for (number, label) in y.ticks() {
        let (_, at) = place((x.from, number));
        picture.line(&[(LEFT, at), (LEFT + width, at)], 0.4, None, PALE);
        picture.line(&[(LEFT - 3.0, at), (LEFT, at)], 0.6, None, BLACK);
        picture.text((LEFT - 5.0, at + 2.8), TEXT, Anchor::End, false, &label, BLACK);
    }
    let corners = [
        (LEFT, TOP),
        (LEFT + width, TOP),
        (LEFT + width, TOP + height),
        (LEFT, TOP + height),
        (LEFT, TOP),
    ];
    picture.line(&corners, 0.6, None, BLACK);
    picture.text((LEFT + width / 2.0, HEIGHT - 6.0), TEXT, Anchor::Middle, false, &x.label, BLACK);
    picture.text((9.0, TOP + height / 2.0), TEXT, Anchor::Middle, true, &y.label, BLACK);
    for one in series {
        let points: Vec<(f32, f32)> = one.points.iter().map(|&point| place(point)).collect();
        if let Some(dash) = one.line {
            picture.line(&points, 0.8, dash, one.colour);
        }
        points.iter().for_each(|&point| mark(&mut picture, point, one));
    }
    for (i, one) in series.iter().enumerate() {
        let (left, at) = (LEFT + (i % 2) as f32 * width / 2.0, 8.0 + 10.0 * (i / 2) as f32);
        if let Some(dash) = one.line {
            picture.line(&[(left, at), (left + 16.0, at)], 0.8, dash, one.colour);
        }
        mark(&mut picture, (left + 8.0, at), one);
        picture.text((left + 20.0, at + 2.5), TEXT - 1.0, Anchor::Start, false, &one.name, BLACK);
    }
    picture
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
