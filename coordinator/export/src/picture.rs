//! Pictures of filled and stroked outlines, as SVG, PDF and PNG. Text becomes outlines too, of a
//! font that the program brings along, so that a picture looks the same everywhere.

use std::{fmt::Write, path::Path};

use flate2::{Compression, write::ZlibEncoder};
use pdf_writer::{Content, Filter, Finish, Pdf, Rect, Ref, TextStr};
use tiny_skia::{FillRule, Paint, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};
use ttf_parser::{Face, OutlineBuilder};

use crate::choice::{Choice as _, choices};

choices! {
    /// Formats of pictures.
    pub enum PictureFormat {
        Svg = "svg": "",
        Pdf = "pdf": "",
        Png = "png": "",
    }
}

impl PictureFormat {
    /// The end of a file's name.
    pub fn extension(self) -> &'static str {
        match self {
            PictureFormat::Svg => "svg",
            PictureFormat::Pdf => "pdf",
            PictureFormat::Png => "png",
        }
    }

    /// The format that the name of a file asks for.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Self::ALL.iter().copied().find(|format| format.extension() == extension)
    }
}

/// Red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

/// Text, axes and outlines.
pub const BLACK: Colour = Colour(0, 0, 0);
/// Background, and the inside of rings.
pub const WHITE: Colour = Colour(255, 255, 255);
/// What stands behind something more important.
pub const GREY: Colour = Colour(150, 150, 150);
/// Grids, which are hardly seen.
pub const PALE: Colour = Colour(225, 225, 225);
/// Blue and vermillion of Okabe and Ito: told apart by everyone, and in grey.
pub const BLUE: Colour = Colour(0, 114, 178);
/// See [`BLUE`].
pub const VERMILLION: Colour = Colour(213, 94, 0);
/// Bluish green of Okabe and Ito, the third colour beside [`BLUE`] and [`VERMILLION`].
pub const GREEN: Colour = Colour(0, 158, 115);

/// A piece of an outline; coordinates in points, y downwards.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Segment {
    Move(f32, f32),
    Line(f32, f32),
    Cubic([f32; 6]),
    Close,
}

/// How an outline is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Style {
    Fill,
    /// Width; lengths of dashes and gaps.
    Stroke(f32, Option<f32>),
}

struct Shape {
    outline: Vec<Segment>,
    style: Style,
    colour: Colour,
}

/// Where a text stands, seen from its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The point is where the text starts.
    Start,
    /// The point is the middle of the text.
    Middle,
    /// The point is where the text ends.
    End,
}

/// A picture of some width and height, in points (72 to the inch).
pub struct Picture {
    title: String,
    width: f32,
    height: f32,
    shapes: Vec<Shape>,
    face: Face<'static>,
}

/// Pixels per point: 300 per inch.
const PIXELS: f32 = 300.0 / 72.0;

impl Picture {
    /// An empty picture; the title is for readers that do not see it.
    pub fn new(title: &str, width: f32, height: f32) -> Self {
        let face =
            Face::parse(dejavu::sans::regular(), 0).expect("the font that comes along is one");
        Picture { title: title.to_owned(), width, height, shapes: Vec::new(), face }
    }

    /// The same picture under another title.
    pub fn retitled(self, title: impl FnOnce(String) -> String) -> Self {
        Picture { title: title(self.title), ..self }
    }

    fn add(&mut self, outline: Vec<Segment>, style: Style, colour: Colour) {
        self.shapes.push(Shape { outline, style, colour });
    }

    /// Straight lines from point to point.
    pub fn line(&mut self, points: &[(f32, f32)], width: f32, dash: Option<f32>, colour: Colour) {
        let outline = points.iter().enumerate().map(|(i, &(x, y))| match i {
            0 => Segment::Move(x, y),
            _ => Segment::Line(x, y),
        });
        self.add(outline.collect(), Style::Stroke(width, dash), colour);
    }

    /// A filled polygon.
    pub fn polygon(&mut self, points: &[(f32, f32)], colour: Colour) {
        let mut outline: Vec<Segment> = points.iter().map(|&(x, y)| Segment::Line(x, y)).collect();
        outline[0] = Segment::Move(points[0].0, points[0].1);
        outline.push(Segment::Close);
        self.add(outline, Style::Fill, colour);
    }

    /// A filled rectangle.
    pub fn rectangle(&mut self, x: f32, y: f32, width: f32, height: f32, colour: Colour) {
        self.polygon(&[(x, y), (x + width, y), (x + width, y + height), (x, y + height)], colour);
    }

    /// A disc.
    pub fn disc(&mut self, x: f32, y: f32, radius: f32, colour: Colour) {
        self.add(circle(x, y, radius), Style::Fill, colour);
    }

    /// A circle line.
    pub fn ring(&mut self, x: f32, y: f32, radius: f32, width: f32, colour: Colour) {
        self.add(circle(x, y, radius), Style::Stroke(width, None), colour);
    }

    /// Width of a text.
    pub fn text_width(&self, size: f32, text: &str) -> f32 {
        let scale = size / f32::from(self.face.units_per_em());
        let advance = |c| {
            self.face
                .glyph_index(c)
                .and_then(|glyph| self.face.glyph_hor_advance(glyph))
                .unwrap_or(0)
        };
        text.chars().map(|c| f32::from(advance(c))).sum::<f32>() * scale
    }

    /// A black text on a base line, upright or (`turned`) running upwards.
    pub fn text(
        &mut self,
        (x, y): (f32, f32),
        size: f32,
        anchor: Anchor,
        turned: bool,
        text: &str,
    ) {
        let width = self.text_width(size, text);
        let start = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -width / 2.0,
            Anchor::End => -width,
        };
        let mut pen = Pen {
            outline: Vec::new(),
            last: (0.0, 0.0),
            x,
            y,
            along: start,
            scale: size / f32::from(self.face.units_per_em()),
            turned,
        };
        for c in text.chars() {
            if let Some(glyph) = self.face.glyph_index(c) {
                self.face.outline_glyph(glyph, &mut pen);
                pen.along +=
                    f32::from(self.face.glyph_hor_advance(glyph).unwrap_or(0)) * pen.scale;
            }
        }
        self.add(pen.outline, Style::Fill, BLACK);
    }

    /// The bytes of the picture in a format.
    pub fn render(&self, format: PictureFormat) -> Vec<u8> {
        match format {
            PictureFormat::Svg => self.svg().into_bytes(),
            PictureFormat::Pdf => self.pdf(),
            PictureFormat::Png => self.png(),
        }
    }

    fn svg(&self) -> String {
        let escaped = self.title.replace('&', "&amp;").replace('<', "&lt;");
        let (w, h) = (self.width, self.height);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}pt\" height=\"{h}pt\" \
             viewBox=\"0 0 {w} {h}\" \
             role=\"img\">\n<title>{escaped}</title>\n<rect width=\"{w}\" height=\"{h}\" \
             fill=\"#ffffff\"/>\n"
        );
        for Shape { outline, style, colour: Colour(r, g, b) } in &self.shapes {
            svg += "<path d=\"";
            for segment in outline {
                let (letter, numbers): (char, &[f32]) = match segment {
                    Segment::Move(x, y) => ('M', &[*x, *y]),
                    Segment::Line(x, y) => ('L', &[*x, *y]),
                    Segment::Cubic(points) => ('C', points),
                    Segment::Close => ('Z', &[]),
                };
                svg.push(letter);
                let numbers: Vec<String> = numbers.iter().map(|&number| short(number)).collect();
                svg += &numbers.join(" ");
            }
            let colour = format!("#{r:02x}{g:02x}{b:02x}");
            match style {
                Style::Fill => writeln!(svg, "\" fill=\"{colour}\"/>"),
                Style::Stroke(width, dash) => {
                    let dash =
                        dash.map_or(String::new(), |dash| format!(" stroke-dasharray=\"{dash}\""));
                    let join = "stroke-linejoin=\"round\"";
                    writeln!(
                        svg,
                        "\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
                                   {join}{dash}/>"
                    )
                }
            }
            .expect("strings can be written to");
        }
        svg + "</svg>\n"
    }

    fn pdf(&self) -> Vec<u8> {
        let unit = |part: u8| f32::from(part) / 255.0;
        let mut content = Content::new();
        // PDF counts upwards.
        content.transform([1.0, 0.0, 0.0, -1.0, 0.0, self.height]);
        content.set_line_join(pdf_writer::types::LineJoinStyle::RoundJoin);
        for Shape { outline, style, colour: Colour(r, g, b) } in &self.shapes {
            match style {
                Style::Fill => content.set_fill_rgb(unit(*r), unit(*g), unit(*b)),
                Style::Stroke(width, dash) => {
                    content.set_dash_pattern(dash.iter().copied(), 0.0);
                    content.set_line_width(*width).set_stroke_rgb(unit(*r), unit(*g), unit(*b))
                }
            };
            for segment in outline {
                match *segment {
                    Segment::Move(x, y) => content.move_to(x, y),
                    Segment::Line(x, y) => content.line_to(x, y),
                    Segment::Cubic([a, b, c, d, x, y]) => content.cubic_to(a, b, c, d, x, y),
                    Segment::Close => content.close_path(),
                };
            }
            match style {
                Style::Fill => content.fill_nonzero(),
                Style::Stroke(..) => content.stroke(),
            };
        }
        let mut compressed = ZlibEncoder::new(Vec::new(), Compression::best());
        std::io::Write::write_all(&mut compressed, &content.finish())
            .expect("memory can be written to");
        let stream = compressed.finish().expect("memory can be written to");
        let [catalog, pages, page, contents, info] = [1, 2, 3, 4, 5].map(Ref::new);
        let mut pdf = Pdf::new();
        pdf.catalog(catalog).pages(pages);
        pdf.pages(pages).kids([page]).count(1);
        let mut sheet = pdf.page(page);
        sheet
            .media_box(Rect::new(0.0, 0.0, self.width, self.height))
            .parent(pages)
            .contents(contents);
        sheet.resources();
        sheet.finish();
        pdf.stream(contents, &stream).filter(Filter::FlateDecode);
        pdf.document_info(info).title(TextStr(&self.title)).creator(TextStr("trailtrap"));
        pdf.finish()
    }

    fn png(&self) -> Vec<u8> {
        let pixels = |points: f32| (points * PIXELS).ceil() as u32;
        let mut pixmap = Pixmap::new(pixels(self.width), pixels(self.height))
            .expect("pictures are neither empty nor huge");
        pixmap.fill(tiny_skia::Color::WHITE);
        let transform = Transform::from_scale(PIXELS, PIXELS);
        for Shape { outline, style, colour: Colour(r, g, b) } in &self.shapes {
            let mut path = PathBuilder::new();
            for segment in outline {
                match *segment {
                    Segment::Move(x, y) => path.move_to(x, y),
                    Segment::Line(x, y) => path.line_to(x, y),
                    Segment::Cubic([a, b, c, d, x, y]) => path.cubic_to(a, b, c, d, x, y),
                    Segment::Close => path.close(),
                }
            }
            // Blanks have no outline.
            let Some(path) = path.finish() else { continue };
            let mut paint = Paint::default();
            paint.set_color_rgba8(*r, *g, *b, 255);
            match *style {
                Style::Fill => pixmap.fill_path(&path, &paint, FillRule::Winding, transform, None),
                Style::Stroke(width, dash) => {
                    let dash = dash.and_then(|dash| StrokeDash::new(vec![dash, dash], 0.0));
                    let line_join = tiny_skia::LineJoin::Round;
                    let stroke = Stroke { width, dash, line_join, ..Stroke::default() };
                    pixmap.stroke_path(&path, &paint, &stroke, transform, None);
                }
            }
        }
        pixmap.encode_png().expect("memory can be written to")
    }
}

/// At most two digits after the point.
fn short(number: f32) -> String {
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Four cubic arcs.
fn circle(x: f32, y: f32, r: f32) -> Vec<Segment> {
    let k = 0.552_284_8 * r;
    vec![
        Segment::Move(x + r, y),
        Segment::Cubic([x + r, y + k, x + k, y + r, x, y + r]),
        Segment::Cubic([x - k, y + r, x - r, y + k, x - r, y]),
        Segment::Cubic([x - r, y - k, x - k, y - r, x, y - r]),
        Segment::Cubic([x + k, y - r, x + r, y - k, x + r, y]),
        Segment::Close,
    ]
}

/// Collects the outlines of glyphs.
struct Pen {
    outline: Vec<Segment>,
    /// In glyph units.
    last: (f32, f32),
    /// Where the text stands, and how far along it the glyph does.
    x: f32,
    y: f32,
    along: f32,
    scale: f32,
    turned: bool,
}

impl Pen {
    fn place(&self, x: f32, y: f32) -> (f32, f32) {
        let (along, up) = (self.along + x * self.scale, y * self.scale);
        if self.turned { (self.x - up, self.y - along) } else { (self.x + along, self.y - up) }
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.last = (x, y);
        let (x, y) = self.place(x, y);
        self.outline.push(Segment::Move(x, y));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.last = (x, y);
        let (x, y) = self.place(x, y);
        self.outline.push(Segment::Line(x, y));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let towards = |from: f32, to: f32| from + 2.0 / 3.0 * (to - from);
        let (x0, y0) = self.last;
        self.curve_to(towards(x0, x1), towards(y0, y1), towards(x, x1), towards(y, y1), x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.last = (x, y);
        let [(a, b), (c, d), (x, y)] = [(x1, y1), (x2, y2), (x, y)].map(|(x, y)| self.place(x, y));
        self.outline.push(Segment::Cubic([a, b, c, d, x, y]));
    }

    fn close(&mut self) {
        self.outline.push(Segment::Close);
    }
}
