# Perl: hashes of arrays, splitting, substitution, sorting.   program.pl ROUNDS
use strict;
use warnings;

my $seed = 12345;
sub below { $seed = ($seed * 1103515245 + 12345) & 0x7fffffff; return ($seed >> 8) % shift }
my @words = map { join "", map { chr(97 + below(26)) } 1 .. 2 + below(10) } 1 .. 2000;
my ($total, %index, @kept) = (0);
for my $round (1 .. $ARGV[0]) {
    my @lines = map { join " ", map { $words[below(2000)] } 1 .. 12 } 1 .. 2500;
    for my $at (0 .. $#lines) {
        push @{$index{$_}}, [$round, $at] for split / /, $lines[$at];
        (my $changed = $lines[$at]) =~ s/\b([a-f]\w+)/<$1>/g;
        $kept[$at % 700] = {line => $changed, words => [sort split / /, $changed]};
    }
    for my $word (keys %index) { splice @{$index{$word}}, 0, -6 if @{$index{$word}} > 6 }
    my $text = join "\n", sort map { $_->{line} } @kept;
    $total += length($text) + scalar(keys %index);
}
print "$total\n";
