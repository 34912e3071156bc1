<?php
// PHP: arrays, objects, strings, regular expressions, JSON.   program.php ROUNDS
class Item
{
    public function __construct(public int $id, public string $name, public array $tags)
    {
    }
}

mt_srand(1);
$words = array_map(fn($i) => base_convert((string) mt_rand(), 10, 36), range(1, 2000));
$total = 0;
$kept = [];
for ($round = 0; $round < (int) $argv[1]; $round++) {
    $items = [];
    for ($i = 0; $i < 3000; $i++) {
        $tags = [$words[mt_rand(0, 1999)], $words[mt_rand(0, 1999)]];
        $items[] = new Item($i, implode(" ", [...$tags, "item$i"]), $tags);
    }
    $text = json_encode($items);
    $back = json_decode($text, true);
    $groups = [];
    foreach ($back as $item) {
        $groups[$item["tags"][0]][] = preg_replace_callback('/[aeiou]+/', fn($m) => strtoupper($m[0]), $item["name"]);
    }
    ksort($groups);
    $kept[$round % 4] = array_map(fn($names) => implode(", ", $names), $groups);
    $total += strlen($text) + count($groups) + array_sum(array_map("strlen", $kept[$round % 4]));
}
echo $total, "\n";
