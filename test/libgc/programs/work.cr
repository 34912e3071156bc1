# Trees, a table of arrays, and fibers that hold what they allocate on their stacks.
class Node
  property left : Node?, right : Node?

  def initialize(depth : Int32)
    if depth > 0
      @left = Node.new(depth - 1)
      @right = Node.new(depth - 1)
    end
  end

  def count : Int32
    1 + (@left.try(&.count) || 0) + (@right.try(&.count) || 0)
  end
end

total = 0
table = {} of String => Array(Int32)
10.times do |i|
  total += Node.new(12).count
  table["key #{i}"] = (0..1000).to_a
end
channel = Channel(Int32).new
4.times { |i| spawn { channel.send((0..1000).map { |x| "text #{x}" }.join.size + i) } }
4.times { total += channel.receive }
puts total, table.values.sum(&.sum)
