{-# LANGUAGE OverloadedStrings #-}
{-# LANGUAGE RankNTypes #-}

-- |
-- Module      : Heddle.Serve.Behind
-- Description : The gateways of a site's routes
-- Stability   : internal, exempt from the version policy
--
-- Opens what answers below each prefix when serving begins, and closes it when serving has ended.
--
-- Cost: that of the gateways.
-- Owner: 'withGateways'.
module Heddle.Serve.Behind
  ( withGateways,
    Watch,
    Behind (..),
    OpenFiles (..),
    ProgramRules (..),
    NotRouted (..),
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Heddle.Gateway.Cgi
import Heddle.Gateway.FastCgi
import Heddle.Gateway.Place
import Heddle.Gateway.Proxy (ProxySettings)
import Heddle.Gateway.Scgi
import Heddle.Http (Reply (..), limitBodyTo)
import Heddle.Http.UriPath (decodePath)
import Heddle.IO (Runtime)
import Heddle.Prim.Atomic (Ref, newRef, readRef, writeRef)
import Heddle.Prim.Clock (Nanos)
import Heddle.Prim.Errno (describeErrno, errnoOf)
import Heddle.Prim.Exception (Exception (..), IOException, fromException, throwIO, trySync)
import Heddle.Serve.FileName (fileNameBytes)
import Heddle.Serve.FileReply (notFound)
import Heddle.Serve.Forward
import Heddle.Serve.Listen
import Heddle.Serve.Redirect (redirectGateway)
import Heddle.Serve.Routes
import Heddle.Serve.UpstreamFigures
import Network.Socket (SockAddr)
import System.Posix.Directory (getWorkingDirectory)

-- | Hears of each gateway that is opened: its route, and how to ask for its figures.
type Watch = RoutePattern -> IO UpstreamFigures -> IO ()

-- | What gateways are opened with.
data Behind = Behind
  { behindRuntime :: !Runtime,
    -- | Hears of troubles.
    behindTell :: !(String -> IO ()),
    behindWatch :: !Watch,
    -- | The absolute path of the served directory; empty if no route runs programs.
    behindRoot :: !ByteString,
    -- | Whether there is a file with this path in it.
    behindHas :: !(ByteString -> IO Bool),
    -- | What proxies have in common.
    behindProxy :: !ProxySettings,
    behindPrograms :: !ProgramRules,
    behindRoutes :: !(Ref Routes),
    behindFiles :: !OpenFiles
  }

-- | Opens the files of a route's directory while the body runs.
newtype OpenFiles = OpenFiles (forall a. RoutePattern -> FilePath -> (Gateway -> IO a) -> IO a)

-- | What programs have in common.
data ProgramRules = ProgramRules
  { -- | Variables for every program.
    programVariables :: ![(ByteString, ByteString)],
    -- | How many CGI programs of a route may run at once, and for how long each.
    programLimit :: !Int,
    programTime :: !Nanos,
    -- | How many unused connections a route to FastCGI keeps.
    programKeep :: !Int
  }

-- | A route that cannot be served, and why.
data NotRouted = NotRouted !RoutePattern !String
  deriving stock (Eq, Show)

instance Exception NotRouted where
  displayException (NotRouted pattern' why) = "cannot serve " ++ renderPattern pattern' ++ ": " ++ why

-- | Open the gateways of routes for a directory, run with them, close them. Some take bodies up to a length only.
-- Troubles of the gateways are told as they occur.
--
-- [Blocks]: as the body does.
-- [Throws]: 'NotRouted' before the body begins.
withGateways :: Runtime -> (String -> IO ()) -> Watch -> Maybe FilePath -> (ByteString -> IO Bool) -> OpenFiles -> ProxySettings -> ProgramRules -> RouteOrder -> [(RoutePattern, Int)] -> [RouteSpec] -> (Routes -> IO a) -> IO a
withGateways runtime tell watch directory has files proxied rules order bodies given body = case repeatedPattern specs of
  Just twice -> throwIO (NotRouted twice "there are two routes for it.\n  Give each prefix once.")
  Nothing -> do
    -- Programs of a site without a directory get paths of files that do not exist.
    root <- if any (runsPrograms . specTarget) specs then maybe (pure "/nonexistent") absolute directory else pure ""
    routes <- newRef noRoutes
    go (Behind runtime tell watch root has proxied rules routes files) specs []
  where
    specs = joinedProxies given
    -- Only these get paths of files; for thousands of sites of files nobody asks where the server is.
    runsPrograms = \case
      CgiDirectory _ -> True
      FastCgiServers _ -> True
      ScgiServers _ -> True
      _ -> False
    go behind [] opened = do
      let routes = newRoutes order (reverse opened)
      writeRef (behindRoutes behind) routes
      body routes
    go behind (RouteSpec pattern' target : others) opened =
      withTarget behind pattern' target (\action -> go behind others ((pattern', limited (lookup pattern' bodies) action) : opened))
    limited (Just most) (Through gateway) = Through (\place request -> limitBodyTo request most >> gateway place request)
    limited _ action = action

-- One route; each kind has a line here.
withTarget :: Behind -> RoutePattern -> RouteTarget -> (Action -> IO a) -> IO a
withTarget behind pattern' target body = case target of
  RewriteTo address -> body (Rewriting address)
  TryFiles addresses final -> body (Trying addresses final)
  RedirectTo status address -> through (redirectGateway status address)
  RespondWith status fields content -> through (\_ _ -> pure (Whole status fields content))
  FilesIn path | OpenFiles files <- behindFiles behind -> opening "Give a directory." pattern' path (files pattern' path) through
  CgiDirectory path -> withPrograms behind pattern' path decoded
  FastCgiServers places -> do
    addresses <- resolved pattern' places
    let settings =
          (defaultFastCgiSettings addresses (behindRoot behind))
            { fastSuffixes = [suffix | not (B.null suffix)],
              fastExists = if B.null suffix then \_ -> pure True else behindHas behind,
              fastVariables = programVariables (behindPrograms behind),
              fastKeep = programKeep (behindPrograms behind),
              fastTell = behindTell behind,
              fastElsewhere = elsewhere behind
            }
    withFastCgi (behindRuntime behind) settings (\fast -> watched (ofFastCgi fast) >> decoded (fastCgiGateway fast))
  ScgiServers places -> do
    addresses <- resolved pattern' places
    let settings =
          (defaultScgiSettings addresses (behindRoot behind))
            { scgiVariables = programVariables (behindPrograms behind),
              scgiTell = behindTell behind,
              scgiElsewhere = elsewhere behind
            }
    withScgi (behindRuntime behind) settings (\scgi -> watched (ofScgi scgi) >> decoded (scgiGateway scgi))
  ProxyTo servers ->
    withForwarding (behindRuntime behind) (behindTell behind) watched (behindProxy behind) pattern' servers $
      either (throwIO . NotRouted pattern') through
  where
    through = body . Through
    -- Programs get decoded paths, in which an encoded slash is one like any other.
    decoded gateway = through (\place request -> maybe (pure notFound) (`gateway` request) (withSlashes place))
    watched = behindWatch behind pattern'
    suffix = patternSuffix pattern'

withPrograms :: Behind -> RoutePattern -> FilePath -> (Gateway -> IO a) -> IO a
withPrograms behind pattern' path body = do
  file <- absolute path
  let settings =
        (defaultCgiSettings file)
          { cgiRoot = behindRoot behind,
            cgiSuffixes = [patternSuffix pattern' | not (B.null (patternSuffix pattern'))],
            cgiVariables = programVariables (behindPrograms behind),
            cgiPrograms = programLimit (behindPrograms behind),
            cgiTime = programTime (behindPrograms behind),
            cgiTell = behindTell behind,
            cgiElsewhere = elsewhere behind
          }
  opening "Give a directory of programs, or an executable file." pattern' path (withCgi (behindRuntime behind) settings) $ \cgi -> do
    behindWatch behind pattern' (ofPrograms cgi)
    -- One program for files of a kind is their interpreter.
    body (if isOneProgram cgi && not (B.null suffix) then cgiScriptGateway cgi (behindRoot behind) [suffix] else cgiGateway cgi)
  where
    suffix = patternSuffix pattern'

-- The addresses of servers.
resolved :: RoutePattern -> [ListenPlace] -> IO [SockAddr]
resolved pattern' places = concat <$> traverse one places
  where
    one place = resolveListen place >>= either (\why -> throwIO (NotRouted pattern' (renderListen (ListenSpec Http place) ++ ": " ++ why ++ ".\n  Give HOST:PORT or unix:PATH."))) pure

-- Only the opening's own failure is the route's.
opening :: String -> RoutePattern -> FilePath -> ((a -> IO b) -> IO b) -> (a -> IO b) -> IO b
opening advice pattern' path with body = do
  begun <- newRef False
  r <- trySync (with (\a -> writeRef begun True >> body a))
  after' <- readRef begun
  case r of
    Right b -> pure b
    Left e
      | not after',
        Just (io :: IOException) <- fromException e,
        Just errno <- errnoOf io ->
        throwIO (NotRouted pattern' (path ++ ": " ++ describeErrno errno ++ ".\n  " ++ advice))
      | otherwise -> throwIO e

-- A program has named another path of this server.
elsewhere :: Behind -> LocalRedirects
elsewhere behind place given request = case decodePath path of
  Right decoded -> do
    routes <- readRef (behindRoutes behind)
    case findRoute routes decoded of
      Just new
        | Through gateway <- foundAction new,
          found <- afterRedirect redirected new ->
          gateway (foundPlace found) {placeUser = placeUser place} request
      _ -> throwIO (LocalFile decoded redirected)
  Left _ -> redirectClients place given request
  where
    redirected = Redirected (B.drop 1 asked) (placeHops place + 1)
    (path, asked) = C.break (== '?') given

absolute :: FilePath -> IO ByteString
absolute path = do
  bytes <- fileNameBytes path
  here <- getWorkingDirectory >>= fileNameBytes
  pure (withoutEnd (if "/" `B.isPrefixOf` bytes then bytes else here <> "/" <> bytes))
  where
    withoutEnd p = if B.length p > 1 then C.dropWhileEnd (== '/') p else p
