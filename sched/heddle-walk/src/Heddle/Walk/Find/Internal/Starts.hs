{-# LANGUAGE MultiWayIf #-}
{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Walk.Find.Internal.Starts
-- Description : Where a search starts
-- Stability   : internal, exempt from the version policy
--
-- Starting points from the command line, or from the file of @-files0-from@. That is read while the
-- search runs: what one read has brought is searched, and its output written, before the next read.
--
-- Cost: a system call for each 256 KiB of names, or for what a pipe holds; memory for these and for the
-- longest name.
-- Owner: the run.
module Heddle.Walk.Find.Internal.Starts
  ( Starts (..),
    withStarts,
    startsFailed,
  )
where

import Control.Monad (void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.Word (Word8)
import Foreign.ForeignPtr (ForeignPtr, mallocForeignPtrBytes, withForeignPtr)
import Foreign.Ptr (castPtr)
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Errno (Errno (..), pattern EINTR)
import Heddle.Prim.Exception (IOException, bracket, try)
import Heddle.Prim.File (closeFile, openFile, readOnlyWaiting, readSome)
import Heddle.Walk.Find.Internal.Settings
import System.Posix.Files (deviceID, fileID, getFdStatus)
import System.Posix.IO.ByteString (stdInput)
import System.Posix.Types (Fd)

-- | Starting points.
data Starts
  = -- | All of them.
    Given ![ByteString]
  | -- | The next ones, at least one; none at the end. Says what is wrong with others.
    Reading !(IO [ByteString]) !(Ref Bool)

-- | Was anything wrong with starting points so far?
startsFailed :: Starts -> IO Bool
startsFailed = \case
  Given _ -> pure False
  Reading _ failed -> readRef failed

-- | Use the starting points of a command line, or a message why there are none. The flag says whether
-- the expression asks questions, whose answers come from standard input.
--
-- [Blocks]: opening and reading hold an OS thread.
-- [Throws]: what the use throws.
withStarts :: Settings -> [ByteString] -> Bool -> (Either ByteString Starts -> IO a) -> IO a
withStarts chosen roots asking use = case setStartsFrom chosen of
  Nothing -> use (Right (Given (if null roots then [Char8.pack "."] else roots)))
  Just file
    | file == Char8.pack "-" -> reading stdInput (Char8.pack "(standard input)")
    | otherwise -> bracket (openFile file readOnlyWaiting) (\fd -> when (fd >= 0) (void (closeFile (fromIntegral fd)))) $ \fd ->
      if fd < 0
        then use (Left (Bytes.concat [Char8.pack "cannot open ", quote file, Char8.pack " for reading: ", errnoText (Errno (negate fd))]))
        else do
          shared <- if asking then sameFile (fromIntegral fd) stdInput else pure False
          if shared
            then
              use . Left $
                Char8.pack "option -files0-from: standard input must not refer to the same file when combined with -ok, -okdir: "
                  <> quote file
            else reading (fromIntegral fd) file
  where
    reading fd name = namesFrom (setProgram chosen) fd name >>= use . Right

-- Only a file that is known to be the same is refused, as in GNU find; what is wrong with the other, reading it tells.
sameFile :: Fd -> Fd -> IO Bool
sameFile a b = (\x y -> either (const False) (uncurry (==)) ((,) <$> x <*> y)) <$> identity a <*> identity b
  where
    identity fd = either (\(e :: IOException) -> Left e) (\s -> Right (deviceID s, fileID s)) <$> try (getFdStatus fd)

-- What has been read: how many names came before, the pieces of the name that has begun (without a NUL, the last one first), and
-- what comes after these.
data Unread = Unread !Int ![ByteString] !ByteString

namesFrom :: ByteString -> Fd -> ByteString -> IO Starts
namesFrom program fd file = do
  buffer <- mallocForeignPtrBytes pieceSize
  failed <- newRef False
  ended <- newRef False
  state <- newRef (Unread 0 [] Bytes.empty)
  let wrong parts = writeRef failed True >> complain program (Bytes.concat (quote file : parts))
      next = do
        Unread before begun text <- readRef state
        let (whole, rest) = Bytes.breakEnd (== 0) text
            -- Up to the first name without a byte.
            named = fst (Bytes.breakSubstring (Bytes.pack [0, 0]) whole)
            used = min (Bytes.length whole) (Bytes.length named + 1)
        if
            | Bytes.null whole -> more before (if Bytes.null rest then begun else rest : begun)
            | null begun && Bytes.head whole == 0 -> do
              wrong [Char8.pack (':' : show (before + 1)), Char8.pack ": invalid zero-length file name"]
              writeRef state (Unread (before + 1) [] (Bytes.drop 1 text))
              next
            | otherwise -> do
              writeRef state (Unread (before + Bytes.count 0 (Bytes.take used whole)) [] (Bytes.drop used text))
              pure (Bytes.split 0 (Bytes.concat (reverse (Bytes.take (used - 1) whole : begun))))
      more before begun = do
        -- The end is told once: a terminal would be asked again.
        over <- readRef ended
        if over
          then pure []
          else
            readPiece buffer fd >>= \case
              Right text
                | Bytes.null text -> do
                  writeRef ended True
                  writeRef state (Unread before [] Bytes.empty)
                  pure [Bytes.concat (reverse begun) | not (null begun)]
                | otherwise -> writeRef state (Unread before begun text) >> next
              Left e -> do
                writeRef ended True
                writeRef state (Unread before [] Bytes.empty)
                [] <$ wrong [Char8.pack ": read error: ", errnoText e]
  pure (Reading next failed)

pieceSize :: Int
pieceSize = 262144

-- What comes next; nothing at the end.
readPiece :: ForeignPtr Word8 -> Fd -> IO (Either Errno ByteString)
readPiece buffer fd = withForeignPtr buffer $ \p ->
  readSome fd p pieceSize >>= \n ->
    if
        | n >= 0 -> Right <$> Bytes.packCStringLen (castPtr p, n)
        | Errno (negate n) == EINTR -> readPiece buffer fd
        | otherwise -> pure (Left (Errno (negate n)))
