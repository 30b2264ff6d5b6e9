-- |
-- Module      : Heddle.MPI.Internal.Argument
-- Description : Arguments on the way to C, and the objects that come back
-- Stability   : internal, exempt from the version policy
--
-- What MPI would not survive is refused here: numbers that do not fit, ranks that nobody has,
-- lists of the wrong length.
--
-- Cost: a comparison for each number.
-- Owner: a new object belongs to whoever asked for it.
module Heddle.MPI.Internal.Argument
  ( -- * Numbers
    toInt,
    checkRank,
    checkRanks,
    distinct,
    flag,
    withRanks,
    withInts,

    -- * Texts
    withUtf8,
    peekUtf8,
    withNative,

    -- * New objects
    newHandle,
    newCommMaybe,
    newCommFrom,
    answer,
  )
where

import Control.Monad (unless, when)
import Data.Int (Int64)
import Data.List (sort)
import Foreign.C.Types (CChar, CInt)
import Foreign.Marshal.Alloc (alloca)
import Foreign.Marshal.Array (withArrayLen)
import Foreign.Ptr (Ptr)
import Foreign.Storable (Storable, peek, poke)
import GHC.Foreign qualified as Encoded
import GHC.IO.Encoding (getFileSystemEncoding)
import Heddle.MPI.Internal.Error
import Heddle.MPI.Internal.Types
import Heddle.Prim.Exception
import System.IO (mkTextEncoding)

-- | As C's int; an error of this class if it is none.
toInt :: ErrorClass -> String -> String -> Int -> IO CInt
toInt class' call what n
  | n < fromIntegral (minBound :: CInt) || n > fromIntegral (maxBound :: CInt) = wrong class' call (what ++ " " ++ show n ++ " is too large")
  | otherwise = pure (fromIntegral n)

-- | A rank of so many processes.
checkRank :: ErrorClass -> String -> String -> Int -> Rank -> IO CInt
checkRank class' call what size (Rank r)
  | r < 0 || r >= size = wrong class' call (what ++ " " ++ show r ++ " is none of the " ++ show size ++ " processes")
  | otherwise = pure (fromIntegral r)

-- | The same for each.
checkRanks :: String -> Int -> [Rank] -> IO ()
checkRanks call size = mapM_ (checkRank InvalidRank call "rank" size)

-- | No rank is there twice.
--
-- [Cost]: O(n log n).
distinct :: String -> [Rank] -> IO ()
distinct call ranks = case [a | (a, b) <- zip sorted (drop 1 sorted), a == b] of
  r : _ -> wrong InvalidRank call ("rank " ++ show r ++ " is given twice")
  [] -> pure ()
  where
    sorted = sort ranks

-- | As C says it.
flag :: Bool -> CInt
flag yes = if yes then 1 else 0

-- | How many ranks, and where they lie.
withRanks :: [Rank] -> (CInt -> Ptr CInt -> IO a) -> IO a
withRanks ranks = withInts [fromIntegral r | Rank r <- ranks]

-- | How many numbers, and where they lie.
withInts :: [CInt] -> (CInt -> Ptr CInt -> IO a) -> IO a
withInts numbers use = withArrayLen numbers (use . fromIntegral)

-- C ends a text with a zero.
noZero :: String -> String -> IO ()
noZero call text = when ('\0' `elem` text) (wrong InvalidArgument call "a text contains a zero")

-- | A text of at most so many bytes, whatever the locale is.
withUtf8 :: String -> Int -> String -> (Ptr CChar -> IO a) -> IO a
withUtf8 call most text use = do
  noZero call text
  utf8 <- mkTextEncoding "UTF-8"
  Encoded.withCStringLen utf8 text $ \(_, n) ->
    unless (n <= most) (wrong InvalidArgument call ("a text of " ++ show n ++ " bytes, more than " ++ show most))
  Encoded.withCString utf8 text use

-- | A text, whatever another program has written there.
peekUtf8 :: Ptr CChar -> IO String
peekUtf8 p = mkTextEncoding "UTF-8//IGNORE" >>= \utf8 -> Encoded.peekCString utf8 p

-- | A text as the operating system has it: a path, an argument.
withNative :: String -> String -> (Ptr CChar -> IO a) -> IO a
withNative call text use = do
  noZero call text
  encoding <- getFileSystemEncoding
  Encoded.withCString encoding text use

-- | The handle of what is made, or 0 if there is none.
newHandle :: String -> (Ptr Int64 -> IO CInt) -> IO Int64
newHandle call = answer call 0

-- | A communicator, where this process is in it.
newCommMaybe :: String -> (Ptr Int64 -> IO CInt) -> IO (Maybe (Comm kind))
newCommMaybe call make = mask_ $ do
  h <- newHandle call make
  if h == 0 then pure Nothing else Just <$> commFrom h

-- | A communicator that this process is in.
newCommFrom :: String -> (Ptr Int64 -> IO CInt) -> IO (Comm kind)
newCommFrom call make = newCommMaybe call make >>= maybe (wrong InternalError call "no communicator was made") pure

-- | What C writes to where this value is.
answer :: Storable a => String -> a -> (Ptr a -> IO CInt) -> IO a
answer call before ask = alloca $ \p -> poke p before >> check call (ask p) >> peek p
