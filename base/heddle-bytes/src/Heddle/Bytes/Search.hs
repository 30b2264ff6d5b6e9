{-# LANGUAGE MultiWayIf #-}

-- |
-- Module      : Heddle.Bytes.Search
-- Description : Bytes, literals and lines, found and counted in strings
-- Stability   : stable
--
-- Counts newlines, finds literals and the lines that contain them, at the speed of memory, in strict byte
-- strings of any size. The kernels are in C, with SSE2 or AVX2 if the machine has it;
-- "Heddle.Bytes.Search.Block" has the same functions over addresses.
--
-- A line ends before its newline (byte 10), or at the end of the string; the end of a string
-- that ends with a newline begins no further line. A literal that contains a newline is in
-- no line; the empty literal is in each. Everything works on bytes: a literal in UTF-8 is
-- found in text in UTF-8, in the same normal form.
--
-- Cost: about 30 ns and 100 bytes per call, then with AVX2 70 to 170 GB/s in the cache, or
-- memory bandwidth beyond it; linear for every input. A string of more than 256 KiB is searched in
-- pieces, between which other threads run.
-- Owner: values.
module Heddle.Bytes.Search
  ( -- * Bytes
    findByte,
    findByteEnd,
    findNthByte,
    countByte,

    -- * Literals
    CaseRule (..),
    Needle,
    newNeedle,
    newNeedles,
    mostLiterals,
    needleRule,
    needleLiterals,
    findNeedle,

    -- * Lines
    countLines,
    countLinesWith,
    Line (..),
    linesWith,
    lineBytes,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Unsafe (unsafeDrop, unsafeTake, unsafeUseAsCStringLen)
import Data.Maybe (isJust)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Bytes.Internal.Needle
import Heddle.Bytes.Internal.Search
import Heddle.Prim.Thread (yield)
import Heddle.Prim.Unsafe (unsafeDupable)

-- | The offset of a byte's first occurrence.
--
-- [Cost]: O(n), 50 to 180 GB/s.
-- [Units]: bytes from the beginning.
--
-- >>> findByte 10 "one\ntwo\n"
-- Just 3
--
-- @since 0.1.0
findByte :: Word8 -> ByteString -> Maybe Int
findByte byte s = place (onBytes s (\p n -> forwards n (\at size -> findByteAt bestLevel (p `plusPtr` at) size byte)))

-- | The offset of a byte's last occurrence.
--
-- [Cost]: O(n), 50 to 100 GB/s.
-- [Units]: bytes from the beginning.
--
-- >>> findByteEnd 10 "one\ntwo\nth"
-- Just 7
--
-- @since 0.1.0
findByteEnd :: Word8 -> ByteString -> Maybe Int
findByteEnd byte s = place (onBytes s backwards)
  where
    backwards p n
      | n <= largestBlock = findByteEndAt bestLevel p n byte
      | otherwise = do
        let start = n - largestBlock
        found <- findByteEndAt bestLevel (p `plusPtr` start) largestBlock byte
        if found >= 0 then pure (start + found) else yield >> backwards p start

-- | The offset of a byte's n-th occurrence, counted from 1; 'Nothing' if there are fewer.
--
-- [Cost]: O(n), 70 GB/s.
-- [Units]: bytes from the beginning.
--
-- >>> findNthByte 2 10 "one\ntwo\nth"
-- Just 7
--
-- @since 0.1.0
findNthByte :: Int -> Word8 -> ByteString -> Maybe Int
findNthByte nth byte s = place (onBytes s (\p n -> go p n nth 0))
  where
    go :: Ptr Word8 -> Int -> Int -> Int -> IO Int
    go p n k at = do
      let size = min largestBlock (n - at)
          piece = p `plusPtr` at
      found <- nthByteAt bestLevel piece size byte k
      if
          | found >= 0 -> pure (at + found)
          | at + size >= n -> pure (-1)
          | otherwise -> do
            seen <- countByteAt bestLevel piece size byte
            yield
            go p n (k - seen) (at + size)

-- | The number of a byte's occurrences.
--
-- [Cost]: O(n), 60 to 170 GB/s.
--
-- >>> countByte 10 "one\ntwo\nth"
-- 2
--
-- @since 0.1.0
countByte :: Word8 -> ByteString -> Int
countByte byte s = onBytes s (go 0)
  where
    go !total p n
      | n <= largestBlock = (total +) <$> countByteAt bestLevel p n byte
      | otherwise = do
        here <- countByteAt bestLevel p largestBlock byte
        yield
        go (total + here) (p `plusPtr` largestBlock) (n - largestBlock)

-- | Prepare a literal for searching, once for all its uses.
--
-- [Cost]: O(n); twice the literal and 200 bytes.
--
-- @since 0.1.0
newNeedle :: CaseRule -> ByteString -> Needle
newNeedle = newNeedleAt bestLevel

-- | As 'newNeedle', for any of several literals; 'Nothing' if there are none,
-- or more than 'mostLiterals'.
--
-- [Cost]: O(n); twice the literals and 100 bytes each. Searching costs one pass for each.
--
-- @since 0.1.0
newNeedles :: CaseRule -> [ByteString] -> Maybe Needle
newNeedles = newNeedlesAt bestLevel

-- | The offset of the first literal found.
--
-- [Cost]: O(n), 70 to 95 GB/s, whatever the literal's length; at worst 3 ns per byte.
-- [Units]: bytes from the beginning.
--
-- >>> findNeedle (newNeedle IgnoreAsciiCase "find me") "now FIND ME"
-- Just 4
--
-- @since 0.1.0
findNeedle :: Needle -> ByteString -> Maybe Int
findNeedle needle s = place (onBytes s (\p n -> forwards n (here p n)))
  where
    -- A literal that begins in the piece may end after it.
    here p n at size = findNeedleAt needle (p `plusPtr` at) (min (n - at) (size + longest)) 0
    longest = maximum (map Bytes.length (needleLiterals needle))

-- | The number of lines.
--
-- [Cost]: as 'countByte'.
--
-- >>> map countLines ["", "one", "one\n", "one\n\n"]
-- [0,1,1,2]
--
-- @since 0.1.0
countLines :: ByteString -> Int
countLines s
  | Bytes.null s = 0
  | Bytes.last s == newline = countByte newline s
  | otherwise = countByte newline s + 1

-- | The number of lines that contain a literal.
--
-- [Cost]: as 'findNeedle', and about 10 ns for each line counted.
--
-- >>> countLinesWith (newNeedle CaseMatters "o") "one\ntwo\nthree"
-- 2
--
-- @since 0.1.0
countLinesWith :: Needle -> ByteString -> Int
countLinesWith needle s = sum (map count (wholeLines s))
  where
    count piece
      | Bytes.length piece <= largestBlock = onBytes piece (countLinesAt needle)
      | otherwise = fromEnum (longLineHas needle piece)

-- | A line of a string.
data Line = Line
  { -- | Its number, from 1.
    lineNumber :: !Int,
    -- | The offset of its first byte.
    lineFrom :: !Int,
    -- | The offset of its newline, or the string's length.
    lineTo :: !Int
  }
  deriving stock (Eq, Ord, Show)

-- | The line's bytes, without the newline. They share the string's memory.
--
-- [Cost]: O(1).
--
-- @since 0.1.0
lineBytes :: ByteString -> Line -> ByteString
lineBytes s line = Bytes.take (lineTo line - lineFrom line) (Bytes.drop (lineFrom line) s)

-- | The lines that contain a literal. The search is lazy: the first lines are searched for one by one,
-- later ones many at a time.
--
-- [Cost]: as 'findNeedle' and 'countByte' together, and about 30 ns and 80 bytes per line.
--
-- >>> linesWith (newNeedle CaseMatters "o") "one\ntwo\nthree"
-- [Line {lineNumber = 1, lineFrom = 0, lineTo = 3},Line {lineNumber = 2, lineFrom = 4, lineTo = 7}]
--
-- @since 0.1.0
linesWith :: Needle -> ByteString -> [Line]
linesWith needle = go 0 1 . wholeLines
  where
    go _ _ [] = []
    go offset number (piece : rest)
      | size <= largestBlock = batches 1 0 number
      | longLineHas needle piece = Line number offset (offset + Bytes.length (chomp piece)) : after (number + 1)
      | otherwise = after (number + 1)
      where
        size = Bytes.length piece
        after next = go (offset + size) next rest
        batches capacity from next =
          case onBytes piece (\p n -> batch needle p n capacity from offset next) of
            (found, Just (from', next')) -> found ++ batches (min 256 (2 * capacity)) from' next'
            (found, Nothing) -> found ++ after (next + countByte newline (Bytes.drop from piece))

-- | Some of the lines from an offset on. If there may be more: the offset and the number after the last
-- one.
batch :: Needle -> Ptr Word8 -> Int -> Int -> Int -> Int -> Int -> IO ([Line], Maybe (Int, Int))
batch needle p size capacity from offset number = do
  table <- newLines capacity
  found <- nextLinesAt needle p size from True table
  let read' next i
        | i == found = pure ([], next)
        | otherwise = do
          start <- lineStart table i
          end <- lineEnd table i
          skipped <- linesSkipped table i
          let !this = next + skipped
              !line = Line this (offset + start) (offset + end)
          (others, final) <- read' (this + 1) (i + 1)
          pure (line : others, final)
  (lines', next) <- read' number 0
  if found < capacity
    then pure (lines', Nothing)
    else do
      end <- lineEnd table (capacity - 1)
      pure (lines', Just (end + 1, next))

-- | Pieces of whole lines, each at most a block unless a single line is larger.
wholeLines :: ByteString -> [ByteString]
wholeLines s
  | Bytes.null s = []
  | Bytes.length s <= largestBlock = [s]
  | otherwise = unsafeTake end s : wholeLines (unsafeDrop end s)
  where
    end = maybe (maybe (Bytes.length s) (+ 1) (findByte newline s)) (+ 1) inBlock
    inBlock = findByteEnd newline (unsafeTake largestBlock s)

-- | Does a line that is larger than a block contain a literal?
longLineHas :: Needle -> ByteString -> Bool
longLineHas needle = isJust . findNeedle needle . chomp

chomp :: ByteString -> ByteString
chomp line
  | Bytes.last line == newline = Bytes.init line
  | otherwise = line

newline :: Word8
newline = 10

-- | The result of an action that only reads the string. On several capabilities, 'Heddle.Prim.Unsafe.unsafePure' would walk the
-- thread's stack at each call, which takes longer than finding a byte that is near; two threads may well do the same search.
onBytes :: ByteString -> (Ptr Word8 -> Int -> IO a) -> a
onBytes s kernel = unsafeDupable (unsafeUseAsCStringLen s (\(p, n) -> kernel (castPtr p) n))
{-# INLINE onBytes #-}

-- | Call the function with offset and size of each piece until one has a result.
forwards :: Int -> (Int -> Int -> IO Int) -> IO Int
forwards n try = go 0
  where
    go at = do
      let size = min largestBlock (n - at)
      found <- try at size
      if
          | found >= 0 -> pure (at + found)
          | at + size >= n -> pure (-1)
          | otherwise -> yield >> go (at + size)
{-# INLINE forwards #-}

place :: Int -> Maybe Int
place found
  | found < 0 = Nothing
  | otherwise = Just found
