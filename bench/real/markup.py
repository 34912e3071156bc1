"""lxml: a large document parsed, searched, transformed by a stylesheet and written.  markup.py FILE ROUNDS"""
import sys

from lxml import etree

STYLE = """<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:template match="/orders"><list><xsl:for-each select="order[total &gt; 500]"><xsl:sort select="customer"/>
<entry id="{@id}"><xsl:value-of select="customer"/>: <xsl:value-of select="count(item)"/></entry>
</xsl:for-each></list></xsl:template></xsl:stylesheet>"""


def main(path, rounds):
    transform = etree.XSLT(etree.XML(STYLE))
    for i in range(rounds):
        tree = etree.parse(path)
        for order in tree.xpath("/orders/order[@state = 'open']"):
            total = sum(float(item.get("price")) * int(item.get("count")) for item in order.iter("item"))
            etree.SubElement(order, "total").text = "%.2f" % total
        for item in tree.xpath("//item[@count = '%d']" % (i % 5 + 1)):
            item.getparent().remove(item)
        print(len(etree.tostring(transform(tree))), len(etree.tostring(tree, pretty_print=True)))


main(sys.argv[1], int(sys.argv[2]))
