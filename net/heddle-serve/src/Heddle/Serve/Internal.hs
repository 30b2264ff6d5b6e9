{-# OPTIONS_HADDOCK not-home #-}

-- |
-- Module      : Heddle.Serve.Internal
-- Description : The parts of the server
-- Stability   : internal, exempt from the version policy
--
-- For this package's suite, which runs the handler and the log on a server of its own.
--
-- Cost: see each function.
-- Owner: see each module.
module Heddle.Serve.Internal
  ( module Heddle.Serve.AccessLog,
    module Heddle.Serve.Behind,
    module Heddle.Serve.Certificates,
    module Heddle.Serve.ClientTable,
    module Heddle.Serve.Coding,
    Codec (..),
    Shape (..),
    Key (..),
    configCodec,
    importNginx,
    importMighttpd,
    module Heddle.Serve.Config.Decode,
    module Heddle.Serve.Config.Include,
    module Heddle.Serve.Config.Tree,
    module Heddle.Serve.Config.Yaml,
    module Heddle.Serve.DescriptorReserve,
    module Heddle.Serve.Directory,
    module Heddle.Serve.FileCache,
    module Heddle.Serve.FileOptions,
    module Heddle.Serve.FileReply,
    module Heddle.Serve.Gathering,
    module Heddle.Serve.Generations,
    module Heddle.Serve.Glob,
    module Heddle.Serve.Guard,
    module Heddle.Serve.Held,
    module Heddle.Serve.HostName,
    module Heddle.Serve.Hosts,
    module Heddle.Serve.Identity,
    module Heddle.Serve.Inherited,
    module Heddle.Serve.Signal,
    module Heddle.Serve.IsoTime,
    module Heddle.Serve.Judge,
    module Heddle.Serve.Listen,
    module Heddle.Serve.Listeners,
    module Heddle.Serve.Listing,
    module Heddle.Serve.LogFilter,
    module Heddle.Serve.LogFormat,
    module Heddle.Serve.LogLine,
    module Heddle.Serve.LogOptions,
    module Heddle.Serve.LogPending,
    module Heddle.Serve.LogSink,
    module Heddle.Serve.LogTarget,
    module Heddle.Serve.LogTemplate,
    module Heddle.Serve.Metrics,
    module Heddle.Serve.Mime,
    module Heddle.Serve.OpenFile,
    module Heddle.Serve.Options,
    module Heddle.Serve.Password,
    module Heddle.Serve.Policy,
    module Heddle.Serve.Process,
    module Heddle.Serve.ProcessFigures,
    module Heddle.Serve.RealClient,
    module Heddle.Serve.Reload,
    module Heddle.Serve.Root,
    module Heddle.Serve.Routes,
    module Heddle.Serve.Shared,
    module Heddle.Serve.Site,
    module Heddle.Serve.Sites,
    module Heddle.Serve.Static,
    module Heddle.Serve.Status,
    module Heddle.Serve.StatusFigures,
    module Heddle.Serve.StatusPage,
    module Heddle.Serve.StatusWire,
    module Heddle.Serve.Supervisor,
    module Heddle.Serve.TargetTemplate,
    module Heddle.Serve.Traceparent,
    module Heddle.Serve.UpstreamFigures,
    module Heddle.Serve.Users,
  )
where

import Heddle.Serve.AccessLog
import Heddle.Serve.Behind
import Heddle.Serve.Certificates
import Heddle.Serve.ClientTable hiding (RateLimit (..))
import Heddle.Serve.Coding
import Heddle.Serve.Config.Codec (Codec (..), Key (..), Shape (..))
import Heddle.Serve.Config.Decode
import Heddle.Serve.Config.Grammar (configCodec)
import Heddle.Serve.Config.Include
import Heddle.Serve.Config.Mighttpd (importMighttpd)
import Heddle.Serve.Config.Nginx (importNginx)
import Heddle.Serve.Config.Tree
import Heddle.Serve.Config.Yaml
import Heddle.Serve.DescriptorReserve
import Heddle.Serve.Directory
import Heddle.Serve.FileCache
import Heddle.Serve.FileOptions
import Heddle.Serve.FileReply
import Heddle.Serve.Gathering
import Heddle.Serve.Generations
import Heddle.Serve.Glob
import Heddle.Serve.Guard
import Heddle.Serve.Held
import Heddle.Serve.HostName
import Heddle.Serve.Hosts
import Heddle.Serve.Identity
import Heddle.Serve.Inherited
import Heddle.Serve.IsoTime
import Heddle.Serve.Judge
import Heddle.Serve.Listen
import Heddle.Serve.Listeners
import Heddle.Serve.Listing
import Heddle.Serve.LogFilter
import Heddle.Serve.LogFormat
import Heddle.Serve.LogLine
import Heddle.Serve.LogOptions
import Heddle.Serve.LogPending
import Heddle.Serve.LogSink
import Heddle.Serve.LogTarget
import Heddle.Serve.LogTemplate
import Heddle.Serve.Metrics
import Heddle.Serve.Mime
import Heddle.Serve.OpenFile
import Heddle.Serve.Options
import Heddle.Serve.Password
import Heddle.Serve.Policy
import Heddle.Serve.Process
import Heddle.Serve.ProcessFigures
import Heddle.Serve.RealClient
import Heddle.Serve.Reload
import Heddle.Serve.Root
import Heddle.Serve.Routes
import Heddle.Serve.Shared
import Heddle.Serve.Signal
import Heddle.Serve.Site
import Heddle.Serve.Sites
import Heddle.Serve.Static
import Heddle.Serve.Status
import Heddle.Serve.StatusFigures
import Heddle.Serve.StatusPage
import Heddle.Serve.StatusWire
import Heddle.Serve.Supervisor
import Heddle.Serve.TargetTemplate
import Heddle.Serve.Traceparent
import Heddle.Serve.UpstreamFigures
import Heddle.Serve.Users
