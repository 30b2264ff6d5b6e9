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
    ranAlone,
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
import Data.List (isPrefixOf, sort, sortBy)
import Data.Maybe (catMaybes)
import Heddle.Prim.Exception (IOException, bracket, try)
import Heddle.Walk
import System.Directory (getSymbolicLinkTarget, getTemporaryDirectory, listDirectory)
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
toFile act = bracket make (removeLink . Char8.pack . fst) $
  \(path, h) -> do
    a <- act h
    hClose h
    text <- ByteString.readFile path
    pure (text, a)
  where
    make = getTemporaryDirectory >>= \folder -> openBinaryTempFile folder "heddle-walk-out"

-- | A program with arguments.
ran :: String -> [String] -> IO Outcome
ran program = ranAs (proc program)

-- | The same, with no descriptors but three.
ranAlone :: String -> [String] -> IO Outcome
ranAlone program = ranAs (\arguments -> (proc program arguments) {close_fds = True})

ranAs :: ([String] -> CreateProcess) -> [String] -> IO Outcome
ranAs how arguments = do
  (out, (err, status)) <- toFile $ \out -> toFile $ \err -> do
    (_, _, _, process) <-
      createProcess (how arguments) {std_out = UseHandle out, std_err = UseHandle err}
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
    && told a == told b
    && outcomeStatus a == outcomeStatus b
  where
    told outcome = sort (map loop (Char8.lines (outcomeMessages outcome)))
    -- Since 4.11 GNU find no longer says where a loop begins.
    loop line
      | (before, rest) <- Char8.breakSubstring (Char8.pack " is part of the same file system loop as") line, not (Char8.null rest) = before
      | (before, rest) <- Char8.breakSubstring (Char8.pack "the following directory is part of the cycle: ") line,
        not (Char8.null rest) =
        before <> Char8.drop 46 rest
      | otherwise = line

-- | Paths in the order of a sequential walk that sorts names; post-order if the flag says.
inOrder :: Bool -> [ByteString] -> [ByteString]
inOrder post = sortBy (\a b -> compared (Char8.split '/' a) (Char8.split '/' b))
  where
    compared [] [] = EQ
    compared [] _ = if post then GT else LT
    compared _ [] = if post then LT else GT
    compared (x : xs) (y : ys) = compare x y <> compared xs ys

-- | What this process has open, except GHC's own timers and polls: those the runtime's
-- threads open when they first get to run.
openDescriptors :: IO [String]
openDescriptors = do
  names <- listDirectory folder >>= mapM target
  pure (sort (filter (not . isPrefixOf "anon_inode:") (catMaybes names)))
  where
    folder = "/proc/self/fd"
    -- The listing's own has been closed.
    target n = either gone Just <$> try (getSymbolicLinkTarget (folder ++ "/" ++ n))
    gone :: IOException -> Maybe String
    gone _ = Nothing
