# Ruby: objects, hashes, strings, regular expressions, JSON.   program.rb ROUNDS
require "json"
require "set"

Person = Struct.new(:id, :name, :tags)
random = Random.new(1)
words = Array.new(2000) { random.rand(1 << 40).to_s(36) }
total = 0
keep = {}
ARGV[0].to_i.times do |round|
  people = Array.new(3000) do |i|
    Person.new(i, words.sample(2, random: random).join(" "), words.sample(3, random: random))
  end
  by_tag = Hash.new { |hash, tag| hash[tag] = [] }
  people.each { |p| p.tags.each { |tag| by_tag[tag] << p } }
  text = JSON.generate(people.map(&:to_h))
  back = JSON.parse(text)
  lines = back.map { |p| "#{p["id"]}: #{p["name"].gsub(/[aeiou]/, &:upcase)} #{p["tags"].sort.join(",")}" }
  seen = Set.new(lines.map { |line| line[/\w+$/] })
  keep[round % 5] = lines.sort.each_slice(7).map { |slice| slice.join("\n") }
  total += text.size + seen.size + by_tag.size + keep.values.sum { |v| v.sum(&:size) }
end
puts total
