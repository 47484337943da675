#include "data_page.h"

#include <capstan/base/text.h>

#include <algorithm>

#include "pages/page.h"

namespace looking {

using capstan::cat;
using capstan::thousands;
using pages::html_text;

namespace {

// What bears loss is also underlined: no reader depends on colours.
constexpr const char* samples_css =
    R"(pre.sample{background:var(--head);border-radius:6px;color:var(--soft);font:14px/1.6 ui-monospace,monospace;margin:8px 0 24px;overflow-wrap:anywhere;padding:12px;white-space:pre-wrap}
pre.sample mark{background:var(--learnt);border-bottom:2px solid var(--bar);color:var(--ink)}
h3{overflow-wrap:anywhere}rect.bar{fill:var(--bar)}figure{max-width:900px}
)";

std::string place(double value) {
  return capstan::number_text(static_cast<double>(static_cast<std::int64_t>(value * 10)) / 10);
}

std::string attribute(const char* name, double value) { return cat(' ', name, "=\"", place(value), '"'); }

// A bar that lies, since names of ranges need room on a phone; between its range and its number.
std::string bar_of(const Bin& bin, double top, double share) {
  constexpr double names = 190, longest = 320, gap = 9, baseline = 20, thickness = 20, margin = 5;
  const auto length = std::max(longest * share, bin.samples > 0 ? 1.0 : 0.0);
  return cat(R"(<text class="y")", attribute("x", names - gap), attribute("y", top + baseline), ">", range_text(bin),
             R"(</text><rect class="bar")", attribute("x", names), attribute("y", top + margin),
             attribute("width", length), attribute("height", thickness), "/><text",
             attribute("x", names + length + gap), attribute("y", top + baseline), ">", thousands(bin.samples),
             "</text>\n");
}

std::string histogram(const Statistics& statistics) {
  constexpr double width = 640, row = 30;
  const auto bins = bins_of(statistics.lengths);
  std::int64_t most = 1;
  for (const auto& bin : bins) most = std::max(most, bin.samples);
  auto out = cat("<figure><svg viewBox=\"0 0 ", width, " ", row * static_cast<double>(bins.size()),
                 R"(" role="img" aria-label="Samples by their tokens">)", "\n");
  for (std::size_t i = 0; i < bins.size(); ++i) {
    const auto share = static_cast<double>(bins[i].samples) / static_cast<double>(most);
    out += bar_of(bins[i], row * static_cast<double>(i), share);
  }
  return out + "</svg><p>Samples by the tokens of their longest sequence</p></figure>\n";
}

std::string html_of(const ShownSample& sample) {
  auto out = cat("<h3>", html_text(sample.head), "</h3>\n");
  for (const auto& sequence : sample.sequences) {
    if (!sequence.head.empty()) out += cat("<p>", html_text(sequence.head), "</p>\n");
    out += "<pre class=\"sample\">";
    for (const auto& part : sequence.parts) {
      const auto text = html_text(part.text);
      out += part.bears_loss ? cat("<mark>", text, "</mark>") : text;
    }
    out += "</pre>\n";
  }
  for (const auto& field : sample.fields) out += cat("<p>", html_text(field), "</p>\n");
  return out;
}

}  // namespace

std::string data_page(const std::string& title, const std::vector<std::string>& said, const Statistics* statistics,
                      const std::vector<ShownSample>& samples) {
  std::string body = "<ul>\n";
  for (const auto& sentence : said) body += sentence.empty() ? "" : cat("<li>", html_text(sentence), "</li>\n");
  body += "</ul>\n";
  if (statistics != nullptr && !statistics->lengths.empty())
    body += "<section><h2>Lengths</h2>\n" + histogram(*statistics) + "</section>\n";
  if (!samples.empty()) body += "<section><h2>Samples</h2>\n<p>Coloured and underlined: tokens that bear loss.</p>\n";
  for (const auto& sample : samples) body += html_of(sample);
  if (!samples.empty()) body += "</section>\n";
  const auto colours = pages::variables_css("--learnt:#d3ebdc;--bar:#00795a;", "--learnt:#1c4033;--bar:#2bc79a;");
  return pages::page_of(title, colours + samples_css, body);
}

}  // namespace looking
