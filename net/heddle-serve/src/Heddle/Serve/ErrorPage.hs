{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.ErrorPage
-- Description : A site's own pages for errors
-- Stability   : internal, exempt from the version policy
--
-- Files of the site that are sent with an error's status instead of the server's sentence. Each capability keeps them,
-- and reads them again after a second.
--
-- Cost: a map lookup for an error; once a second openat2, fstat, read and close.
-- Owner: one capability.
module Heddle.Serve.ErrorPage
  ( ErrorPages,
    newErrorPages,
    forgetPages,
    errorPage,
    mostOfPage,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal qualified as BI (createUptoN)
import Data.Char (toLower)
import Data.Int (Int64)
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Heddle.Http
import Heddle.Http.Borrowed (requestBegan)
import Heddle.Prim.Atomic (Ref, modifyRef, newRef, readRef)
import Heddle.Prim.Clock (Deadline, after, seconds)
import Heddle.Prim.Exception (onException)
import Heddle.Prim.File
import Heddle.Serve.OpenFile
import Heddle.Serve.Policy

-- | The pages that were read, by status: when, the media type and the content; 'Nothing' for one that cannot be read.
newtype ErrorPages = ErrorPages (Ref (Map Int Page))

data Page = Page !Deadline !(Maybe (ByteString, ByteString))

-- | None read yet.
newErrorPages :: IO ErrorPages
newErrorPages = ErrorPages <$> newRef Map.empty

-- | Let all be read again.
--
-- [Threads]: any.
forgetPages :: ErrorPages -> IO ()
forgetPages (ErrorPages ref) = modifyRef ref (const (Map.empty, ()))

-- | Longer pages are not sent.
--
-- [Units]: bytes.
mostOfPage :: Int64
mostOfPage = 1048576

-- | The reply with the site's page for its status, if there is one that can be read. Called with asynchronous exceptions
-- masked.
--
-- [Blocks]: holds an OS thread if the page has to be read.
errorPage :: Policy -> Opening -> ErrorPages -> Request -> Reply -> IO Reply
errorPage policy opening (ErrorPages ref) request reply = case reply of
  Whole status fields _ | Just path <- Map.lookup (statusCode status) (policyErrorPages policy) -> do
    pages <- readRef ref
    content <- case Map.lookup (statusCode status) pages of
      Just (Page at found) | requestBegan request < after (seconds 1) at -> pure found
      _ -> do
        found <- readPage path
        modifyRef ref (\known -> (Map.insert (statusCode status) (Page (requestBegan request) found) known, ()))
        pure found
    pure $ case content of
      Just (media, body) -> Whole status (Header "Content-Type" media : filter (not . isType) fields) body
      Nothing -> reply
  _ -> pure reply
  where
    isType (Header name _) = C.map toLower name == "content-type"
    readPage path =
      openHere opening request path >>= \case
        Left _ -> pure Nothing
        Right file -> do
          let size = statusSize (openStatus file)
          body <-
            if statusKind (openStatus file) == RegularFile && size <= mostOfPage
              then Just <$> BI.createUptoN (fromIntegral size) (\p -> max 0 <$> readLarge (openFd file) p (fromIntegral size)) `onException` closeOpened file
              else pure Nothing
          closeOpened file
          pure ((,) (mediaFor policy path) <$> body)
