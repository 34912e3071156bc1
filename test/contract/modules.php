<?php
// Calls into PHP's extensions, modules that it opens with RTLD_DEEPBIND.
$document = new DOMDocument();
$document->loadXML("<r>" . str_repeat("<x y='1'>z</x>", 2000) . "</r>");
$names = ["z", "ä", "a"];
(new Collator("de_DE"))->sort($names);
echo strlen($document->saveXML()), " ", simplexml_load_string("<a><b>text</b></a>")->b, " ",
    mb_strtoupper("straße"), " ", implode($names), "\n";
