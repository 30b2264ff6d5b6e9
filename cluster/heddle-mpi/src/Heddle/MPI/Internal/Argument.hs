-- |
-- Module      : Heddle.MPI.Internal.Argument
-- Description : Checking arguments for C, and wrapping the objects it returns
-- Stability   : internal, exempt from the version policy
--
-- Refuses arguments that would crash MPI: numbers that do not fit, ranks outside the
-- communicator, lists of the wrong length.
--
-- Cost: a comparison for each number.
-- Owner: the caller owns a new object.
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

-- | Convert to C's @int@; an error of the given class if the number does not fit.
toInt :: ErrorClass -> String -> String -> Int -> IO CInt
toInt class' call what n
  | n < fromIntegral (minBound :: CInt) || n > fromIntegral (maxBound :: CInt) = wrong class' call (what ++ " " ++ show n ++ " is too large")
  | otherwise = pure (fromIntegral n)

-- | Check a rank against the number of processes.
checkRank :: ErrorClass -> String -> String -> Int -> Rank -> IO CInt
checkRank class' call what size (Rank r)
  | r < 0 || r >= size = wrong class' call (what ++ " " ++ show r ++ " is none of the " ++ show size ++ " processes")
  | otherwise = pure (fromIntegral r)

-- | 'checkRank' for each rank of a list.
checkRanks :: String -> Int -> [Rank] -> IO ()
checkRanks call size = mapM_ (checkRank InvalidRank call "rank" size)

-- | Check that no rank occurs twice.
--
-- [Cost]: O(n log n).
distinct :: String -> [Rank] -> IO ()
distinct call ranks = case [a | (a, b) <- zip sorted (drop 1 sorted), a == b] of
  r : _ -> wrong InvalidRank call ("rank " ++ show r ++ " is given twice")
  [] -> pure ()
  where
    sorted = sort ranks

-- | A 'Bool' as C's @int@.
flag :: Bool -> CInt
flag yes = if yes then 1 else 0

-- | Pass the number of ranks and an array of them.
withRanks :: [Rank] -> (CInt -> Ptr CInt -> IO a) -> IO a
withRanks ranks = withInts [fromIntegral r | Rank r <- ranks]

-- | Pass the number of numbers and an array of them.
withInts :: [CInt] -> (CInt -> Ptr CInt -> IO a) -> IO a
withInts numbers use = withArrayLen numbers (use . fromIntegral)

-- C strings end with a NUL.
noZero :: String -> String -> IO ()
noZero call text = when ('\0' `elem` text) (wrong InvalidArgument call "a text contains a zero")

-- | Pass a text in UTF-8, of a limited number of bytes, regardless of the locale.
withUtf8 :: String -> Int -> String -> (Ptr CChar -> IO a) -> IO a
withUtf8 call most text use = do
  noZero call text
  utf8 <- mkTextEncoding "UTF-8"
  Encoded.withCStringLen utf8 text $ \(_, n) ->
    unless (n <= most) (wrong InvalidArgument call ("a text of " ++ show n ++ " bytes, more than " ++ show most))
  Encoded.withCString utf8 text use

-- | Read a text, ignoring bytes that are not UTF-8.
peekUtf8 :: Ptr CChar -> IO String
peekUtf8 p = mkTextEncoding "UTF-8//IGNORE" >>= \utf8 -> Encoded.peekCString utf8 p

-- | Pass a text in the operating system's encoding: a path or an argument.
withNative :: String -> String -> (Ptr CChar -> IO a) -> IO a
withNative call text use = do
  noZero call text
  encoding <- getFileSystemEncoding
  Encoded.withCString encoding text use

-- | The handle of a new object, or 0 if the call made none.
newHandle :: String -> (Ptr Int64 -> IO CInt) -> IO Int64
newHandle call = answer call 0

-- | A new communicator; 'Nothing' if this process is not in it.
newCommMaybe :: String -> (Ptr Int64 -> IO CInt) -> IO (Maybe (Comm kind))
newCommMaybe call make = mask_ $ do
  h <- newHandle call make
  if h == 0 then pure Nothing else Just <$> commFrom h

-- | A new communicator that contains this process.
newCommFrom :: String -> (Ptr Int64 -> IO CInt) -> IO (Comm kind)
newCommFrom call make = newCommMaybe call make >>= maybe (wrong InternalError call "no communicator was made") pure

-- | Read C's answer from memory that starts with the given value.
answer :: Storable a => String -> a -> (Ptr a -> IO CInt) -> IO a
answer call before ask = alloca $ \p -> poke p before >> check call (ask p) >> peek p
