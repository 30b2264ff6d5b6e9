-- |
-- Module      : Heddle.Flow.Internal.Source
-- Description : Sources
-- Stability   : internal
--
-- Each source is a loop. What it opens is inside an ordinary bracket, so it is closed where the
-- loop ends: at the end of the elements, when the sink has had enough, and by exceptions.
--
-- Cost: a loop that counts, and a safe point every 4,096 elements (the first after 64).
-- Owner: the thread that runs it.
module Heddle.Flow.Internal.Source
  ( range,
    countFrom,
    fromList,
    unfold,
    unfoldM,
    iterate,
    repeatM,
    receiving,
    receivingLines,
    bracketed,
    handleChunks,
    handleLines,
    fileChunks,
    fileLines,
    glue,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Heddle.Flow.Internal.Types (Next (..), Source (..), every, few, period, start)
import Heddle.Prim.Exception (bracket)
import Heddle.Prim.Thread (safePoint)
import System.IO (Handle, IOMode (..), hClose, openBinaryFile)
import Prelude hiding (iterate)

-- | The numbers from the first to the second, both included.
--
-- [Cost]: 0 bytes for each number.
-- [Blocks]: never.
range :: Int -> Int -> Source Int
range from to = Source $ \step s0 more enough ->
  let -- In blocks, so that one comparison serves both the end and the safe points.
      go !i !end !s
        | i /= end = step s i (go (i + 1) end) enough
        | i == stop = more s
        | otherwise = case safePoint i of j -> go j (block period j) s
      -- Unsigned, since the distance may be greater than 'maxBound'.
      block size i = if fromIntegral (stop - 1 - i) < (fromIntegral size :: Word) then stop else i + size
      !stop = to + 1
   in if from > to then more s0 else go from (block few from) s0
{-# INLINE range #-}

-- | @countFrom from n@: @n@ numbers, beginning with @from@. For short runs within a flow it is
-- slightly faster than 'range', if @n@ is a constant.
--
-- [Cost]: 0 bytes for each number.
-- [Blocks]: never.
countFrom :: Int -> Int -> Source Int
countFrom from n = Source $ \step s0 more enough ->
  let go !i !end !s
        | i /= end = step s i (go (i + 1) end) enough
        | i == stop = more s
        | otherwise = case safePoint i of j -> go j (if stop - j <= period then stop else j + period) s
      !stop = from + n
   in if n <= 0 then more s0 else go from (if n <= few then stop else from + few) s0
{-# INLINE countFrom #-}

-- | The elements of a list.
--
-- [Cost]: 0 bytes for each element, besides the list.
-- [Blocks]: never.
fromList :: [a] -> Source a
fromList = unfold (\case [] -> Nothing; x : xs -> Just (x, xs))
{-# INLINE fromList #-}

-- | Elements made from a state, until there are none.
--
-- [Cost]: 0 bytes for each element, when the function is visible to the optimiser.
-- [Blocks]: never.
unfold :: (t -> Maybe (a, t)) -> t -> Source a
unfold f = unfoldM (pure . f)
{-# INLINE unfold #-}

-- | As 'unfold', by an action.
--
-- [Cost]: 0 bytes for each element, besides the action's.
-- [Blocks]: as the action does.
unfoldM :: (t -> IO (Maybe (a, t))) -> t -> Source a
unfoldM f t0 = Source $ \step s0 more enough ->
  let go n !t !s =
        f t >>= \case
          Nothing -> more s
          Just (x, t') -> step s x (\s' -> every n (\n' -> go n' t' s')) enough
   in go start t0 s0
{-# INLINE unfoldM #-}

-- | A first element, and a function that makes each next one from the one before, without end.
--
-- [Cost]: 0 bytes for each element, when the function is visible to the optimiser.
-- [Blocks]: never.
iterate :: (a -> a) -> a -> Source a
iterate f = unfold (\x -> Just (x, f x))
{-# INLINE iterate #-}

-- | The results of an action that is repeated until it returns 'Nothing'.
--
-- [Cost]: 0 bytes for each element, besides the action's.
-- [Blocks]: as the action does.
repeatM :: IO (Maybe a) -> Source a
repeatM act = unfoldM (\() -> fmap (\x -> (x, ())) <$> act) ()
{-# INLINE repeatM #-}

-- | What an action receives, for example from a socket, until it receives an empty piece.
--
-- [Cost]: 0 bytes for each element, besides the action's.
-- [Blocks]: as the action does.
receiving :: IO ByteString -> Source ByteString
receiving act = unfoldM (\() -> (\x -> if B.null x then Nothing else Just (x, ())) <$> act) ()
{-# INLINE receiving #-}

-- | The lines of what an action receives until it receives an empty piece, without their
-- newlines; the last may lack its newline. A line within one piece is not copied, and keeps the
-- piece alive ('Data.ByteString.copy').
--
-- [Cost]: one search for each line; 48 bytes, and a copy if it is in several pieces.
-- [Blocks]: as the action does.
receivingLines :: IO ByteString -> Source ByteString
receivingLines act = unfoldM next (Unread True B.empty)
  where
    next (Unread open chunk) = case B.elemIndex 10 chunk of
      Just i -> pure (Just (B.take i chunk, Unread open (B.drop (i + 1) chunk)))
      Nothing
        | open -> more [chunk]
        | B.null chunk -> pure Nothing
        | otherwise -> pure (Just (chunk, Unread False B.empty))
    {-# INLINE next #-}
    -- A line in pieces, the last one first.
    more pieces =
      act >>= \chunk -> case B.elemIndex 10 chunk of
        Just i -> pure (Just (glue (B.take i chunk : pieces), Unread True (B.drop (i + 1) chunk)))
        Nothing
          | not (B.null chunk) -> more (chunk : pieces)
          | all B.null pieces -> pure Nothing
          | otherwise -> pure (Just (glue pieces, Unread False B.empty))
{-# INLINE receivingLines #-}

-- Whether there may be more pieces, and what 'receivingLines' has not cut yet.
data Unread = Unread !Bool !ByteString

-- | Concatenate the pieces of a line, which come last one first.
glue :: [ByteString] -> ByteString
glue [piece] = piece
glue pieces = B.concat (reverse pieces)

-- | A source of a resource that is opened before and closed at its end.
--
-- [Cost]: that of 'bracket', once.
-- [Blocks]: as the actions do.
-- [Masking]: opens and closes masked; the loop runs as the caller does.
-- [Throws]: what the actions and the loop throw; the resource is closed in any case, exactly once.
bracketed :: IO h -> (h -> IO ()) -> (h -> Source a) -> Source a
bracketed open close use = Source $ \step s more enough ->
  bracket open close (\h -> case use h of Source loop -> loop step s (pure . More) (pure . Enough)) >>= \case
    More s' -> more s'
    Enough e -> enough e
{-# INLINE bracketed #-}

-- | The bytes of a handle, in pieces of at most 64 KiB, as they come. Leaves the handle open.
--
-- [Cost]: one system call and one buffer for each piece.
-- [Blocks]: parks the thread, or holds an OS thread, as reading from handles does.
-- [Throws]: 'IOError'.
handleChunks :: Handle -> Source ByteString
handleChunks h = receiving (B.hGetSome h 65536)
{-# INLINE handleChunks #-}

-- | The lines of a handle, without their newlines. Leaves the handle open.
--
-- [Cost]: that of 'handleChunks' and 'receivingLines'.
-- [Blocks]: parks the thread, or holds an OS thread, as reading from handles does.
-- [Throws]: 'IOError'.
handleLines :: Handle -> Source ByteString
handleLines h = receivingLines (B.hGetSome h 65536)
{-# INLINE handleLines #-}

-- | The bytes of a file, in pieces of at most 64 KiB.
--
-- [Cost]: one system call and one buffer for each piece.
-- [Blocks]: parks the thread, or holds an OS thread, as reading from handles does.
-- [Throws]: 'IOError'.
fileChunks :: FilePath -> Source ByteString
fileChunks path = bracketed (openBinaryFile path ReadMode) hClose handleChunks
{-# INLINE fileChunks #-}

-- | The lines of a file, without their newlines.
--
-- [Cost]: that of 'fileChunks' and 'receivingLines'.
-- [Blocks]: parks the thread, or holds an OS thread, as reading from handles does.
-- [Throws]: 'IOError'.
fileLines :: FilePath -> Source ByteString
fileLines path = bracketed (openBinaryFile path ReadMode) hClose handleLines
{-# INLINE fileLines #-}
