"""A page escapes all text and loads nothing."""

from html.parser import HTMLParser

from ferero_lab.report import HtmlPage, Picture
from ferero_lab.report.page import _scripts


class Outline(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for key, value in attrs if key in {"src", "href", "srcset"}]


def test_a_page_escapes_everything_and_asks_the_network_for_nothing():
    page = HtmlPage("<script>1</script>")
    page.heading("<b>")
    page.text("f1 <= 0.3 & more")
    page.verbatim("<i>\nx")
    page.table(["<u>", "status"], [["<s>", "converged"]])
    page.picture(Picture(b"1", b"2", b"", 100), '"quoted" <caption>')
    page.footer("<end>")
    text = page.render().decode()
    outline = Outline()
    outline.feed(text)
    assert not {"script", "b", "i", "u", "s", "caption", "end"} & set(outline.tags)
    assert "f1 &lt;= 0.3 &amp; more" in text
    assert '<td class="converged">' in text
    assert outline.links == ["data:image/png;base64,Mg==", "data:image/png;base64,MQ=="]
    assert "http" not in text
    assert "prefers-color-scheme: dark" in text


def test_code_that_speaks_of_a_closing_tag_does_not_close_its_own(monkeypatch):
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: 'const tag = "</script>";')
    assert _scripts([], {}).count("</script>") == 3  # the data, plotly, and what draws
