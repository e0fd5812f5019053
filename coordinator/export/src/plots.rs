//! The plots: how the proportion of P1-wins goes with the order, with the number of edges and its
//! parity, with the density, and with the degree sequence.

use trailtrap_census::read::{OrderResult, Watcher, archive::Archive};
use trailtrap_shared::{
    class::Class,
    count::statistics::{Cell, Counts, Statistics},
    graph::MAX_ORDER,
};

use crate::{
    ExportError,
    chart::{Axis, Marker, Scale, Series, TEXT, WIDTH, chart, power_label},
    choice::choices,
    columns::{TableKind, cell, last_size},
    documents, examined, parity,
    picture::{Anchor, BLACK, BLUE, Colour, GREEN, PALE, Picture, VERMILLION},
    proportions::{PROPORTION, colour_of, proportions, proportions_with_zero, share},
};

choices! {
    /// The plots there are.
    pub enum PlotKind {
        Orders = "orders": "Proportion of P1-wins against the order",
        Sizes = "sizes":
            "Proportion of P1-wins of one order against the number of edges, even and odd",
        HeatMap = "heat-map": "Proportion of P1-wins by order and number of edges, in colours",
        Degrees = "degrees":
            "How the proportion of P1-wins is distributed over the degree sequences of one \
             order",
        Density = "density":
            "Proportion of P1-wins against the density, all orders, odd and even numbers of \
             edges apart",
        MinimumDegree = "minimum-degree": "The same against the minimum degree",
        OddDegrees = "odd-degrees": "The same against the number of vertices of odd degree",
        OddDegreesBySize = "odd-degrees-by-size":
            "Proportion of P1-wins of one order against the number of edges, a curve for each \
             number of vertices of odd degree",
        Involutions = "involutions":
            "Proportion of P1-wins against the most vertices that an involution moves, all orders \
             up to 9 whose graphs were kept",
    }
}

impl PlotKind {
    /// Whether it shows one order, rather than all up to one.
    pub fn is_of_one_order(self) -> bool {
        matches!(self, PlotKind::Sizes | PlotKind::Degrees | PlotKind::OddDegreesBySize)
    }

    /// Whether it is about all graphs of each order: a proportion of some would look like theirs.
    pub fn is_of_complete_orders(self) -> bool {
        matches!(
            self,
            PlotKind::Orders
                | PlotKind::MinimumDegree
                | PlotKind::OddDegrees
                | PlotKind::Involutions
        )
    }

    /// Whether every graph is looked at, which takes its time.
    pub fn looks_at_graphs(self) -> bool {
        matches!(self, PlotKind::Involutions)
    }

    /// The last order that can be drawn.
    pub fn last_order(self) -> usize {
        if self.looks_at_graphs() { examined::LAST_ORDER } else { MAX_ORDER }
    }
}

/// Draws a plot of the order, or of all finished orders up to it; of the last finished order if
/// none is given. What looks at every graph leaves out orders whose graphs are not there then, and
/// `watcher` hears of it.
///
/// # Errors
/// If the archive does not have the order, or cannot be read.
pub fn plot(
    archive: &Archive,
    kind: PlotKind,
    order: Option<usize>,
    watcher: &dyn Watcher,
) -> Result<Picture, ExportError> {
    let mut results = match (kind, order) {
        (kind, _) if kind.is_of_complete_orders() => archive.complete_orders(order)?,
        (kind, Some(order)) if kind.is_of_one_order() => vec![archive.order(order)?],
        _ => archive.orders(order)?,
    };
    if order.is_none() {
        results.truncate(kind.last_order());
    }
    let last = results.last().expect("there is no archive without a finished order");
    let class = archive.class();
    let picture = match kind {
        PlotKind::Orders => orders(class, &results),
        PlotKind::Sizes => sizes(class, last),
        PlotKind::HeatMap => heat_map(class, &results),
        PlotKind::Degrees => {
            let shards = archive.shards(last.order)?;
            let cells: Vec<(usize, Cell)> = shards
                .iter()
                .map(|shard| (shard.sequence.size(), cell(&shard.statistics)))
                .collect();
            degrees(class, last, &cells)
        }
        PlotKind::Density => {
            parity::plot(class, TableKind::Density, &results, &parity::by_density(&results))
        }
        PlotKind::MinimumDegree => by_degrees(archive, TableKind::MinimumDegreeParity, &results)?,
        PlotKind::OddDegrees => by_degrees(archive, TableKind::OddDegrees, &results)?,
        PlotKind::OddDegreesBySize => {
            let cells = parity::by_size_and_odd_degrees(&archive.shards(last.order)?);
            parity::plot_by_size(class, last, &cells)
        }
        PlotKind::Involutions => {
            let rows = examined::by_support(archive, &mut results, watcher)?;
            parity::plot(class, TableKind::Involutions, &results, &rows)
        }
    };
    let about = archive.game().about();
    Ok(picture.retitled(|title| documents::title_of_picture(about, title)))
}

/// The plot of a table that follows from the counts of every degree sequence.
fn by_degrees(
    archive: &Archive,
    kind: TableKind,
    results: &[OrderResult],
) -> Result<Picture, ExportError> {
    let mut rows = Vec::new();
    for result in results {
        rows.extend(parity::by_degrees(kind, result.order, &archive.shards(result.order)?));
    }
    Ok(parity::plot(archive.class(), kind, results, &rows))
}

fn orders(class: Class, results: &[OrderResult]) -> Picture {
    type Pick = fn(&Statistics) -> &Counts;
    let [all, connected, labelled] = match class {
        Class::All => ["all graphs", "connected graphs", "labelled graphs"],
        _ => ["all", "connected", "labelled"],
    };
    let kinds: [(&str, Colour, Marker, Option<f32>, Pick); 3] = [
        (all, BLUE, Marker::Disc, None, |s| &s.classes.all),
        (connected, VERMILLION, Marker::Ring, None, |s| &s.classes.connected),
        (labelled, GREEN, Marker::Disc, Some(2.0), |s| &s.labelled.all),
    ];
    let series: Vec<Series> = kinds
        .into_iter()
        .map(|(name, colour, marker, dash, pick)| {
            let points = results.iter().filter(|result| result.order >= 2).filter_map(|result| {
                share(pick(&result.total().statistics)).map(|share| (result.order as f64, share))
            });
            Series::of(name, points.collect(), colour, marker, Some(dash))
        })
        .collect();
    let last = results.last().map_or(2, |result| result.order).max(3);
    let x = Axis {
        label: "number n of vertices".to_owned(),
        from: 1.5,
        to: last as f64 + 0.5,
        scale: Scale::Linear,
    };
    let all = series.iter().flat_map(|one| one.points.iter().map(|point| point.1));
    let y = proportions_with_zero(all);
    chart(
        &format!(
            "Proportion of {} that the first player wins, by number of vertices",
            class.title()
        ),
        &x,
        &y,
        &series,
    )
}

fn sizes(class: Class, result: &OrderResult) -> Picture {
    let n = result.order;
    let points = |odd: usize, labelled: bool| -> Vec<(f64, f64)> {
        let sizes = result.by_size.iter().enumerate().filter(|(size, _)| size % 2 == odd);
        let counts = |size: &Statistics| match labelled {
            true => share(&size.labelled.all),
            false => share(&size.classes.all),
        };
        sizes.filter_map(|(size, row)| Some((size as f64, counts(&row.statistics)?))).collect()
    };
    let one = |name: &str, odd: usize, labelled: bool, colour: Colour| {
        let marker = if labelled { Marker::None } else { [Marker::Ring, Marker::Disc][odd] };
        let line = Some(labelled.then_some(2.0));
        Series::of(name, points(odd, labelled), colour, marker, line)
    };
    let series = [
        one("m odd", 1, false, VERMILLION),
        one("m odd, labelled", 1, true, VERMILLION),
        one("m even", 0, false, BLUE),
        one("m even, labelled", 0, true, BLUE),
    ];
    let shares = series.iter().flat_map(|one| one.points.iter().map(|point| point.1));
    let y = proportions_with_zero(shares);
    let x = Axis {
        label: format!("number m of edges (n = {n})"),
        from: 0.0,
        to: last_size(class, result).max(1) as f64,
        scale: Scale::Linear,
    };
    chart(
        &format!(
            "Proportion of {} with {n} vertices that the first player wins, by number of edges \
             and its parity",
            class.title()
        ),
        &x,
        &y,
        &series,
    )
}

/// Rectangles side by side overlap by this much, lest gaps shine through.
const OVERLAP: f32 = 0.3;

/// The cells of a heat map: numbers of vertices from 1 on from left to right, and numbers of edges
/// from 0 on upwards.
struct Grid {
    columns: usize,
    rows: usize,
    /// Width and height of a cell.
    cell: (f32, f32),
}

impl Grid {
    const LEFT: f32 = 34.0;
    const RIGHT: f32 = 52.0;
    const TOP: f32 = 8.0;
    const BOTTOM: f32 = 32.0;
    /// Height of the picture.
    const HEIGHT: f32 = 260.0;

    fn new(columns: usize, rows: usize) -> Self {
        let width = (WIDTH - Self::LEFT - Self::RIGHT) / columns as f32;
        let height = (Self::HEIGHT - Self::TOP - Self::BOTTOM) / rows as f32;
        Grid { columns, rows, cell: (width, height) }
    }

    /// The upper end of the cells of a number of edges.
    fn y_of(&self, size: usize) -> f32 {
        Self::HEIGHT - Self::BOTTOM - (size + 1) as f32 * self.cell.1
    }
}

fn heat_map(class: Class, results: &[OrderResult]) -> Picture {
    let cells: Vec<(usize, usize, f64)> = results
        .iter()
        .flat_map(|result| {
            let sizes = result.by_size.iter().enumerate();
            sizes.filter_map(|(size, row)| {
                Some((result.order, size, share(&row.statistics.classes.all)?))
            })
        })
        .collect();
    let least = proportions(cells.iter().map(|cell| cell.2)).from;
    let place = |share: f64| 1.0 - share.log10() / least.log10();
    let last = results.last().map_or(1, |result| result.order);
    let most = results.iter().map(|result| last_size(class, result)).max();
    let grid = Grid::new(last, most.unwrap_or(0) + 1);
    let title = format!(
        "Proportion of {} that the first player wins, by number of vertices and of edges",
        class.title()
    );
    let mut picture = Picture::new(&title, WIDTH, Grid::HEIGHT);
    let (width, height) = grid.cell;
    for &(n, size, share) in &cells {
        let colour = if share > 0.0 { colour_of(place(share)) } else { PALE };
        let x = Grid::LEFT + (n - 1) as f32 * width;
        picture.rectangle(x, grid.y_of(size), width - 1.0, height + OVERLAP, colour);
    }
    labels(&mut picture, &grid);
    colour_scale(&mut picture, least);
    picture
}

/// Some numbers of vertices and of edges beside the cells, and the names of both axes.
fn labels(picture: &mut Picture, grid: &Grid) {
    let (left, bottom) = (Grid::LEFT, Grid::HEIGHT - Grid::BOTTOM);
    let (last, (width, height)) = (grid.columns, grid.cell);
    let room = picture.text_width(TEXT, &last.to_string()) + 1.0;
    let step = [1, 2, 5].into_iter().find(|&step| step as f32 * width >= room).unwrap_or(5);
    for n in (step..=last).step_by(step) {
        let at = (left + (n as f32 - 0.5) * width, bottom + 10.0);
        picture.text(at, TEXT, Anchor::Middle, false, &n.to_string());
    }
    let step = [1, 2, 5, 10].into_iter().find(|step| grid.rows / step <= 10).unwrap_or(20);
    for size in (0..grid.rows).step_by(step) {
        let y = grid.y_of(size) + height / 2.0;
        picture.line(&[(left - 4.0, y), (left - 1.0, y)], 0.6, None, BLACK);
        picture.text((left - 6.0, y + 2.8), TEXT, Anchor::End, false, &size.to_string());
    }
    let at = (left + last as f32 * width / 2.0, Grid::HEIGHT - 6.0);
    picture.text(at, TEXT, Anchor::Middle, false, "number n of vertices");
    let at = (9.0, (bottom + Grid::TOP) / 2.0);
    picture.text(at, TEXT, Anchor::Middle, true, "number m of edges");
}

/// The scale of colours from 1 down to the least proportion, and what stands for 0.
fn colour_scale(picture: &mut Picture, least: f64) {
    let (x, top, height) = (WIDTH - Grid::RIGHT + 8.0, Grid::TOP + 12.0, 130.0);
    for i in 0..64 {
        let step = height / 64.0;
        let colour = colour_of(1.0 - (f64::from(i) + 0.5) / 64.0);
        picture.rectangle(x, top + i as f32 * step, 8.0, step + OVERLAP, colour);
    }
    let decades = least.log10().round() as i32;
    for power in decades..=0 {
        let y = top + height * power as f32 / decades as f32;
        let at = (x + 11.0, y + 2.8);
        picture.text(at, TEXT - 1.0, Anchor::Start, false, &power_label(power));
    }
    picture.rectangle(x, top + height + 8.0, 8.0, 8.0, PALE);
    picture.text((x + 11.0, top + height + 14.8), TEXT - 1.0, Anchor::Start, false, "0");
    let at = (WIDTH - 3.0, top + height / 2.0);
    picture.text(at, TEXT - 1.0, Anchor::Middle, true, PROPORTION);
}

/// A curve is drawn through this many points.
const STEPS: i32 = 120;

fn degrees(class: Class, result: &OrderResult, cells: &[(usize, Cell)]) -> Picture {
    let order = result.order;
    let few = result.limit().map_or_else(String::new, |max_size| format!(", m ≤ {max_size}"));
    let axis = proportions(cells.iter().filter_map(|(_, cell)| share(&cell.classes)));
    let decades = axis.from.log10();
    // For a proportion the part of the degree sequences, or of their graphs, that reach it.
    let curve = |odd: usize, weight: fn(&Cell) -> f64| -> Vec<(f64, f64)> {
        let chosen: Vec<(f64, f64)> = cells
            .iter()
            .filter(|(size, _)| size % 2 == odd)
            .filter_map(|(_, cell)| Some((share(&cell.classes)?, weight(cell))))
            .collect();
        let whole: f64 = chosen.iter().map(|one| one.1).sum();
        (0..=STEPS)
            .map(|step| {
                let least = 10f64.powf(decades * (1.0 - f64::from(step) / f64::from(STEPS)));
                let reached =
                    chosen.iter().filter(|one| one.0 >= least * (1.0 - 1e-12)).map(|one| one.1);
                (least, reached.sum::<f64>() / whole.max(1.0))
            })
            .collect()
    };
    let one =
        |name: &str, odd: usize, colour: Colour, dash: Option<f32>, weight: fn(&Cell) -> f64| {
            Series::of(name, curve(odd, weight), colour, Marker::None, Some(dash))
        };
    let series = [
        one("m odd, sequences", 1, VERMILLION, None, |_| 1.0),
        one("m odd, their graphs", 1, VERMILLION, Some(2.0), |cell| cell.classes.graphs as f64),
        one("m even, sequences", 0, BLUE, None, |_| 1.0),
        one("m even, their graphs", 0, BLUE, Some(2.0), |cell| cell.classes.graphs as f64),
    ];
    let x =
        Axis { label: format!("proportion of P1-wins in a sequence (n = {order}{few})"), ..axis };
    let y = Axis {
        label: "part that reaches it".to_owned(),
        from: 0.0,
        to: 1.0,
        scale: Scale::Linear,
    };
    chart(
        &format!(
            "Distribution of the proportion of P1-wins over the degree sequences of {}order \
             {order}",
            match class {
                Class::All => String::new(),
                class => format!("{} of ", class.title()),
            }
        ),
        &x,
        &y,
        &series,
    )
}

#[cfg(test)]
mod tests {
    use trailtrap_shared::{count::summary::Summary, graph::pairs};

    use super::*;
    use crate::picture::PictureFormat;

    /// An order of forests: none of them has more edges than vertices less one.
    fn forests(order: usize) -> OrderResult {
        let mut by_size = vec![Summary::default(); pairs(order) + 1];
        for row in &mut by_size[..order] {
            row.statistics.classes.all = Counts { graphs: 2, listed: 1 };
        }
        OrderResult { order, by_size }
    }

    #[test]
    fn pictures_have_room_for_the_graphs_of_a_class_and_no_more() {
        let results: Vec<OrderResult> = (1..=20).map(forests).collect();
        assert_eq!(last_size(Class::Forest, &results[19]), 19);
        assert_eq!(last_size(Class::All, &results[19]), 190);
        let svg = heat_map(Class::Forest, &results).render(PictureFormat::Svg);
        let texts = String::from_utf8(svg).unwrap().matches("fill=\"#000000\"").count();
        // Every second number of vertices and of edges; the names of both axes, and that of the
        // scale of colours with two powers of ten, and 0.
        assert_eq!(texts, 10 + 10 + 2 + 4);
    }
}
