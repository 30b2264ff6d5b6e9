-- |
-- Module      : Walks
-- Description : Walks and finds whose output is compared
-- Stability   : test
module Walks
  ( -- * Running
    Outcome (..),
    walked,
    walkedWith,
    printing,
    ran,
    found,
    toFile,

    -- * Comparing
    records,
    sameSet,
    inOrder,
    openDescriptors,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as ByteString
import Data.ByteString.Char8 qualified as Char8
import Data.List (sort, sortBy)
import Heddle.Prim.Exception (bracket)
import Heddle.Walk
import System.Directory (listDirectory)
import System.Exit (ExitCode (..))
import System.IO (Handle, hClose, openBinaryTempFile)
import System.Posix.ByteString (removeLink)
import System.Posix.IO (closeFd, handleToFd)
import System.Posix.Types (Fd)
import System.Process (CreateProcess (..), StdStream (..), createProcess, proc, waitForProcess)

-- | What came out, the messages, the status.
data Outcome = Outcome
  { outcomeOutput :: ByteString,
    outcomeMessages :: ByteString,
    outcomeStatus :: Int
  }
  deriving stock (Eq, Show)

-- | Walk and print every path with a NUL.
walked :: WalkOptions -> [RawPath] -> IO Outcome
walked options roots = fst <$> walkedWith options roots printing

-- | A visitor that prints.
printing :: Visitor
printing entry = Descend <$ putPath entry 0

-- | Walk in the order that the options say.
walkedWith :: WalkOptions -> [RawPath] -> Visitor -> IO (Outcome, WalkResult)
walkedWith options roots visitor = do
  (out, (err, result)) <-
    toFile $ \out -> withFd out $ \o -> toFile $ \err -> withFd err $ \e ->
      run (number o) (number e)
  pure (Outcome out err (if walkFailed result then 1 else 0), result)
  where
    withFd h = bracket (handleToFd h) closeFd
    number :: Num a => Fd -> a
    number = fromIntegral
    run o e =
      (if walkOrder options == Sorted then walkOrdered else walk)
        options {walkOutput = o, walkErrors = e}
        roots
        visitor

-- | Run with a handle for a temporary file, which is given back with its contents. The
-- handle may be turned into a descriptor.
toFile :: (Handle -> IO a) -> IO (ByteString, a)
toFile act = bracket (openBinaryTempFile "/tmp" "heddle-walk-out") (removeLink . Char8.pack . fst) $
  \(path, h) -> do
    a <- act h
    hClose h
    text <- ByteString.readFile path
    pure (text, a)

-- | A program with arguments.
ran :: String -> [String] -> IO Outcome
ran program arguments = do
  (out, (err, status)) <- toFile $ \out -> toFile $ \err -> do
    (_, _, _, process) <-
      createProcess (proc program arguments) {std_out = UseHandle out, std_err = UseHandle err, close_fds = True}
    waitForProcess process
  pure . Outcome out err $ case status of
    ExitSuccess -> 0
    ExitFailure n -> n

-- | GNU find with these arguments and @-print0@.
found :: [String] -> IO Outcome
found arguments = ran "find" (arguments ++ ["-print0"])

-- | What ends with a NUL each.
records :: ByteString -> [ByteString]
records text = case Char8.split '\0' text of
  [] -> []
  parts -> init parts

-- | Equal up to the order of records and of messages.
sameSet :: Outcome -> Outcome -> Bool
sameSet a b =
  sort (records (outcomeOutput a)) == sort (records (outcomeOutput b))
    && sort (Char8.lines (outcomeMessages a)) == sort (Char8.lines (outcomeMessages b))
    && outcomeStatus a == outcomeStatus b

-- | Paths in the order of a sequential walk that sorts names; post-order if the flag says.
inOrder :: Bool -> [ByteString] -> [ByteString]
inOrder post = sortBy (\a b -> compared (Char8.split '/' a) (Char8.split '/' b))
  where
    compared [] [] = EQ
    compared [] _ = if post then GT else LT
    compared _ [] = if post then LT else GT
    compared (x : xs) (y : ys) = compare x y <> compared xs ys

-- | How many descriptors this process has.
openDescriptors :: IO Int
openDescriptors = length <$> listDirectory "/proc/self/fd"
